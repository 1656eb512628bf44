// Decode attention: how a block scores its rows of K and sums its rows of V.

struct Rows {
    Vector key[ROWS_IN_FLIGHT][kLaneVectors], value[ROWS_IN_FLIGHT][kLaneVectors];
};

__device__ __forceinline__ const Vector* lane_address(const Vector* rows, long long row, int vector) {
    return rows + row * kRowVectors + vector;
}

// the lane's part of ROWS_IN_FLIGHT rows, kWarpRows apart, of which those below `end` exist
__device__ __forceinline__ void load_rows(const Vector* rows, int first, int end, int column,
                                          Vector (*out)[kLaneVectors]) {
#pragma unroll
    for (int u = 0; u < ROWS_IN_FLIGHT; ++u)
#pragma unroll
        for (int j = 0; j < kLaneVectors; ++j) {
            const int row = first + u * kWarpRows, vector = column + j * kRowLanes;
            out[u][j] = load(lane_address(rows, row, vector), row < end && vector < kRowVectors);
        }
}

// score[u][h] in units of log2, minus infinity for a row that does not exist
__device__ __forceinline__ void score_rows(const Rows& rows, const float (*query)[kWidth], int first, int end,
                                           float (*score)[BLOCK_HEADS]) {
#pragma unroll
    for (int u = 0; u < ROWS_IN_FLIGHT; ++u) {
        float key[kWidth];
#pragma unroll
        for (int j = 0; j < kLaneVectors; ++j) widen_key_or_value(rows.key[u][j], key + j * kElements);
#pragma unroll
        for (int h = 0; h < BLOCK_HEADS; ++h) {
            float even = 0.0f, odd = 0.0f;
#pragma unroll
            for (int i = 0; i < kWidth; i += 2) {
                even = fmaf(key[i], query[h][i], even);
                odd = fmaf(key[i + 1], query[h][i + 1], odd);
            }
            score[u][h] = even + odd;
        }
    }
#pragma unroll
    for (int step = kRowLanes / 2; step > 0; step /= 2)
#pragma unroll
        for (int u = 0; u < ROWS_IN_FLIGHT; ++u)
#pragma unroll
            for (int h = 0; h < BLOCK_HEADS; ++h) score[u][h] += __shfl_xor_sync(~0u, score[u][h], step);
#pragma unroll
    for (int u = 0; u < ROWS_IN_FLIGHT; ++u)
#pragma unroll
        for (int h = 0; h < BLOCK_HEADS; ++h)
            if (first + u * kWarpRows >= end) score[u][h] = kMinusInfinity;
}

// raises largest[h] to the largest score of the warp's rows
__device__ __forceinline__ void warp_maximum(const float (*score)[BLOCK_HEADS], float* largest) {
#pragma unroll
    for (int u = 0; u < ROWS_IN_FLIGHT; ++u)
#pragma unroll
        for (int h = 0; h < BLOCK_HEADS; ++h) largest[h] = fmaxf(largest[h], score[u][h]);
#pragma unroll
    for (int step = kRowLanes; step < 32; step *= 2)
#pragma unroll
        for (int h = 0; h < BLOCK_HEADS; ++h) largest[h] = fmaxf(largest[h], __shfl_xor_sync(~0u, largest[h], step));
}

// raises largest[h] to that of the block; every thread calls it, once
__device__ __forceinline__ void block_maximum(Shared& shared, int warp, int lane, float* largest) {
#pragma unroll
    for (int h = 0; h < BLOCK_HEADS; ++h)
        if (lane == 0) shared.warp_maximum[h][warp] = largest[h];
    __syncthreads();
#pragma unroll
    for (int h = 0; h < BLOCK_HEADS; ++h)
#pragma unroll
        for (int w = 0; w < BLOCK_WARPS; ++w) largest[h] = fmaxf(largest[h], shared.warp_maximum[h][w]);
}

// adds the rows to sum and value, which are relative to `maximum`, and makes them relative to `largest`
__device__ __forceinline__ void weigh_rows(const Rows& rows, const float (*score)[BLOCK_HEADS], const float* maximum,
                                           const float* largest, float* sum, float (*value)[kWidth]) {
    float base[BLOCK_HEADS];
#pragma unroll
    for (int h = 0; h < BLOCK_HEADS; ++h) {
        base[h] = largest[h] == kMinusInfinity ? 0.0f : largest[h];
        const float decay = exponential2(maximum[h] - base[h]);
        sum[h] *= decay;
#pragma unroll
        for (int i = 0; i < kWidth; ++i) value[h][i] *= decay;
    }
#pragma unroll
    for (int u = 0; u < ROWS_IN_FLIGHT; ++u) {
        float row[kWidth];
#pragma unroll
        for (int j = 0; j < kLaneVectors; ++j) widen_key_or_value(rows.value[u][j], row + j * kElements);
#pragma unroll
        for (int h = 0; h < BLOCK_HEADS; ++h) {
            const float weight = exponential2(score[u][h] - base[h]);
            sum[h] += weight;
#pragma unroll
            for (int i = 0; i < kWidth; ++i) value[h][i] = fmaf(weight, row[i], value[h][i]);
        }
    }
}

// Sums over the rows that a warp loads at once. Lanes swap halves of what they hold, so each ends up with kKept sums:
// those of its elements from the returned one on.
template <int step, int half>
__device__ __forceinline__ int warp_sum(int lane, float* sum, float (*value)[kWidth]) {
    if constexpr (step < 32) {
        const bool upper = lane & step;
#pragma unroll
        for (int h = 0; h < BLOCK_HEADS; ++h) {
            sum[h] += __shfl_xor_sync(~0u, sum[h], step);
#pragma unroll
            for (int i = 0; i < half; ++i) {
                const float given = upper ? value[h][i] : value[h][i + half];
                const float kept = upper ? value[h][i + half] : value[h][i];
                value[h][i] = kept + __shfl_xor_sync(~0u, given, step);
            }
        }
        return (upper ? half : 0) + warp_sum<step * 2, half / 2>(lane, sum, value);
    } else {
        return 0;
    }
}

__device__ __forceinline__ void share_warp_sums(Shared& shared, int warp, int lane, int offset, const float* sum,
                                                const float (*value)[kWidth]) {
    const int column = lane % kRowLanes;
#pragma unroll
    for (int h = 0; h < BLOCK_HEADS; ++h) {
        if (lane == 0) shared.warp_sum[h][warp] = sum[h];
#pragma unroll
        for (int i = 0; i < kKept; ++i) {
            const int vector = column + i / kElements * kRowLanes;
            const int element = vector * kElements + offset + i % kElements;
            if (vector < kRowVectors) shared.warp_value[warp][h * HEAD_SIZE + element] = value[h][i];
        }
    }
    __syncthreads();
}

// the sum over `share` neighbouring lanes
__device__ __forceinline__ float add_lanes(float x, int share) {
#pragma unroll
    for (int step = share / 2; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
}
