// Fused multiply-adds in registers and nothing else: what the CUDA cores can issue in fp32.
//
// Defined by the caller: CHAINS, the independent sums of a thread. Each of `rounds` rounds is UNROLL multiply-adds of
// every chain. The factor is below 1, so the sums stay finite and a lost round would show in the result.

#define UNROLL 32

extern "C" __global__ void fma_chains(float* out, float factor, float addend, int rounds) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    float sum[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) sum[c] = (float)(thread % 1024) + (float)c;
    for (int round = 0; round < rounds; ++round)
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
#pragma unroll
            for (int c = 0; c < CHAINS; ++c) sum[c] = fmaf(sum[c], factor, addend);
    float total = 0.0f;
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) total += sum[c];
    out[thread] = total;
}
