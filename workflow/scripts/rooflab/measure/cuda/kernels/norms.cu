// The element-wise kernels between the products of a decode step: residual sum with a norm, activation, softmax.
//
// Defined by the caller: FORMAT (0 fp32, 1 fp16, 2 bf16) of everything in memory, WIDTH (elements of a row), THREADS of a
// block, LAYER_NORM (0 root mean square, 1 mean and variance), GELU (0 SiLU), GATED (the input's second half multiplies).
// All arithmetic is fp32.

constexpr int kElements = FORMAT == 0 ? 4 : 8;  // in a 16-byte vector
constexpr int kVectors = WIDTH / kElements;     // in a row
constexpr int kPasses = (kVectors + THREADS - 1) / THREADS;
static_assert(WIDTH % kElements == 0, "a row is whole vectors");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "a block is whole warps");

struct alignas(16) Vector {
    u32 word[4];
};

struct Values {
    float x[kElements];
};

// ---- vectors

__device__ __forceinline__ Values unpack(Vector v) {
    Values r;
#pragma unroll
    for (int i = 0; i < kElements; ++i)
        r.x[i] = FORMAT == 0 ? __uint_as_float(v.word[i % 4]) : widen(v.word[i / 2] >> 16 * (i % 2) & 0xffffu);
    return r;
}

__device__ __forceinline__ Vector pack(Values v) {
    Vector r = {};
#pragma unroll
    for (int i = 0; i < kElements; ++i)
        if (FORMAT == 0)
            r.word[i % 4] = __float_as_uint(v.x[i]);
        else
            r.word[i / 2] |= narrow(v.x[i]) << 16 * (i % 2);
    return r;
}

// ---- over a block

template <typename Combine>
__device__ __forceinline__ float over_block(float value, float neutral, Combine combine) {
    __shared__ float warps[32];
    for (int step = 16; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
    __syncthreads();  // a call before this one may still be reading
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x % 32 < THREADS / 32 ? warps[threadIdx.x % 32] : neutral;
    for (int step = 16; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
    return value;
}

__device__ __forceinline__ float block_sum(float value) {
    return over_block(value, 0.0f, [](float a, float b) { return a + b; });
}

__device__ __forceinline__ float block_maximum(float value) {
    return over_block(value, -3.4e38f, [](float a, float b) { return fmaxf(a, b); });
}

// ---- kernels

// summed = state + addition; normed = norm(summed) * gain (+ bias). One block per row; the row stays in registers.
extern "C" __global__ void __launch_bounds__(THREADS)
    add_norm(const Vector* state, const Vector* addition, const Vector* gain, const Vector* bias, Vector* summed,
             Vector* normed, float epsilon) {
    const long long row = (long long)blockIdx.x * kVectors;
    Values kept[kPasses];
    float sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
        const int at = pass * THREADS + threadIdx.x;
        kept[pass] = Values{};
        if (at >= kVectors) continue;
        Values a = unpack(state[row + at]);
        const Values b = unpack(addition[row + at]);
#pragma unroll
        for (int i = 0; i < kElements; ++i) a.x[i] += b.x[i];
        const Vector stored = pack(a);
        summed[row + at] = stored;
        kept[pass] = unpack(stored);
#pragma unroll
        for (int i = 0; i < kElements; ++i) {
            sum += kept[pass].x[i];
            squares += kept[pass].x[i] * kept[pass].x[i];
        }
    }
    const float mean = LAYER_NORM ? block_sum(sum) / WIDTH : 0.0f;
    if (LAYER_NORM) {
        squares = 0.0f;
#pragma unroll
        for (int pass = 0; pass < kPasses; ++pass)
            if (pass * THREADS + threadIdx.x < kVectors)
#pragma unroll
                for (int i = 0; i < kElements; ++i)
                    squares += (kept[pass].x[i] - mean) * (kept[pass].x[i] - mean);
    }
    const float scale = rsqrtf(block_sum(squares) / WIDTH + epsilon);
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
        const int at = pass * THREADS + threadIdx.x;
        if (at >= kVectors) continue;
        const Values g = unpack(gain[at]);
        Values shift = {};
        if (LAYER_NORM) shift = unpack(bias[at]);
        Values r;
#pragma unroll
        for (int i = 0; i < kElements; ++i) r.x[i] = (kept[pass].x[i] - mean) * scale * g.x[i] + shift.x[i];
        normed[row + at] = pack(r);
    }
}

__device__ __forceinline__ float activation(float x) {
    const float inner = GELU ? 1.5957691216f * (x + 0.044715f * x * x * x) : x;  // x (1 + tanh(y)) / 2 = x / (1 + exp(-2y))
    return x / (1.0f + __expf(-inner));
}

// out (rows, WIDTH) = activation(in), times the second half of in where GATED. One thread per vector.
extern "C" __global__ void __launch_bounds__(THREADS) activate(const Vector* in, Vector* out, long long rows) {
    const long long at = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (at >= rows * kVectors) return;
    const long long from = at / kVectors * kVectors * (GATED ? 2 : 1) + at % kVectors;
    Values v = unpack(in[from]), factor = {};
    if (GATED) factor = unpack(in[from + kVectors]);
#pragma unroll
    for (int i = 0; i < kElements; ++i) v.x[i] = activation(v.x[i]) * (GATED ? factor.x[i] : 1.0f);
    out[at] = pack(v);
}

// out (rows, length) = softmax(scale * scores). One block per row of fp32 scores; `out` is in FORMAT.
extern "C" __global__ void __launch_bounds__(THREADS)
    softmax_rows(const float* scores, void* out, int length, float scale) {
    const float* from = scores + (long long)blockIdx.x * length;
    float maximum = -3.4e38f, sum = 0.0f;
    for (int at = threadIdx.x; at < length; at += THREADS) maximum = fmaxf(maximum, from[at] * scale);
    maximum = block_maximum(maximum);
    for (int at = threadIdx.x; at < length; at += THREADS) sum += __expf(from[at] * scale - maximum);
    const float inverse = 1.0f / block_sum(sum);
    const long long row = (long long)blockIdx.x * length;
    for (int at = threadIdx.x; at < length; at += THREADS) {
        const float p = __expf(from[at] * scale - maximum) * inverse;
        if (FORMAT == 0)
            ((float*)out)[row + at] = p;
        else
            ((u16*)out)[row + at] = (u16)narrow(p);
    }
}
