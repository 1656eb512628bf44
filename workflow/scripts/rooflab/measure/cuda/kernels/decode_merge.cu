// Decode attention: merging the partial results of the SPLITS ranges of a sequence.

#if SPLITS > 1
// Where the partial results of all ranges of a unit lie: in the shared memory of the cluster's first block, or global.
struct Partial {
    float *maximum, *sum, *value;  // [SPLITS][BLOCK_HEADS], the same, [SPLITS][kOutputs]
};

__device__ __forceinline__ void put(float* address, float x) {
#if CLUSTER_MERGE
    store_first(address, x);
#else
    *address = x;
#endif
}

__device__ __forceinline__ float get(const float* address) {
#if CLUSTER_MERGE
    return *address;
#else
    return load_fresh(address);
#endif
}

__device__ __forceinline__ void merge_splits(const Partial& partial, void* out, long long first_result) {
    constexpr int parts = SPLITS / kSplitShare;
    for (int item = threadIdx.x; item < kOutputs * kSplitShare; item += kThreads) {
        const int output = item / kSplitShare, share = item % kSplitShare, head = output / HEAD_SIZE;
        float maximum[parts], sum[parts], value[parts], largest = kMinusInfinity;
#pragma unroll
        for (int i = 0; i < parts; ++i) {
            const int split = share + i * kSplitShare;
            maximum[i] = get(partial.maximum + split * BLOCK_HEADS + head);
            sum[i] = get(partial.sum + split * BLOCK_HEADS + head);
            value[i] = get(partial.value + split * kOutputs + output);
        }
#pragma unroll
        for (int i = 0; i < parts; ++i) largest = fmaxf(largest, maximum[i]);
#pragma unroll
        for (int step = kSplitShare / 2; step > 0; step /= 2)
            largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
        float total_sum = 0.0f, total_value = 0.0f;
#pragma unroll
        for (int i = 0; i < parts; ++i) {
            const float weight = exponential2(maximum[i] - largest);
            total_sum = fmaf(weight, sum[i], total_sum);
            total_value = fmaf(weight, value[i], total_value);
        }
        total_sum = add_lanes(total_sum, kSplitShare);
        total_value = add_lanes(total_value, kSplitShare);
        if (share == 0) store_result(out, first_result + output, total_value / total_sum);
    }
}
#endif
