// Decode attention of one token per sequence in one launch: K and V are read once, scores never leave the chip.
//
// A block serves BLOCK_HEADS query heads that share a KV head, on one of SPLITS ranges of the sequence. Its warps load
// ROWS_IN_FLIGHT rows of K and of V per lane group before they use the first, score them, agree on the block's largest
// score, and weigh V with softmax numerators relative to it; partial results therefore add up without rescaling.
// Ranges are merged in the same launch: through the shared memory of a thread-block cluster (CLUSTER_MERGE 1, compute
// capability >= 9.0), or by the block that arrives last, through global memory.
//
// Online softmax: M. Milakov, N. Gimelshein, arXiv:1805.02867. Splitting the sequence: T. Dao et al., Flash-Decoding,
// 2023.
//
// The last of the files that make up the kernel, after decode_formats.cu, decode_rows.cu and decode_merge.cu.

// One block per (sequence, KV head, part of its group, range), ranges fastest. query and out [B][Hq][HEAD_SIZE],
// keys and values [B][Hkv][sequence][HEAD_SIZE]; scale is log2(e) / sqrt(HEAD_SIZE). For the global merge:
// workspace holds blocks * (kOutputs + 2 * BLOCK_HEADS) floats, arrivals one zero per SPLITS blocks, which the launch
// leaves at zero.
extern "C" __global__ void __launch_bounds__(kThreads) CLUSTER_SHAPE
decode_attention(const Vector* query, const Vector* keys, const Vector* values, void* out, float* workspace,
                 u32* arrivals, int sequence, float scale) {
    __shared__ Shared shared;
#if CLUSTER_MERGE
    announce_start();
#endif
    const int split = blockIdx.x % SPLITS;
    const long long unit = blockIdx.x / SPLITS, first_result = unit * kOutputs;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = lane % kRowLanes;
    const int range = (sequence + SPLITS - 1) / SPLITS;
    const int begin = split * range, end = min(sequence, begin + range);
    int first = begin + warp * ROWS_IN_FLIGHT * kWarpRows + lane / kRowLanes;
    keys += unit / GROUP_PARTS * sequence * kRowVectors;
    values += unit / GROUP_PARTS * sequence * kRowVectors;

    Vector raw[BLOCK_HEADS][kLaneVectors * kQueryVectors];
#pragma unroll
    for (int h = 0; h < BLOCK_HEADS; ++h)
#pragma unroll
        for (int j = 0; j < kLaneVectors * kQueryVectors; ++j) {
            const int vector = column + j / kQueryVectors * kRowLanes;
            const long long row = (unit * BLOCK_HEADS + h) * kRowVectors;
            raw[h][j] = load(query + (row + vector) * kQueryVectors + j % kQueryVectors, vector < kRowVectors);
        }
    Rows rows;
    load_rows(keys, first, end, column, rows.key);
    load_rows(values, first, end, column, rows.value);

    float scaled[BLOCK_HEADS][kWidth], maximum[BLOCK_HEADS], sum[BLOCK_HEADS], value[BLOCK_HEADS][kWidth];
#pragma unroll
    for (int h = 0; h < BLOCK_HEADS; ++h) {
#pragma unroll
        for (int j = 0; j < kLaneVectors; ++j) widen_query(raw[h] + j * kQueryVectors, scaled[h] + j * kElements);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            scaled[h][i] *= scale;
            value[h][i] = 0.0f;
        }
        maximum[h] = kMinusInfinity;
        sum[h] = 0.0f;
    }

    for (int pass = begin;; pass += kPassRows) {
        float score[ROWS_IN_FLIGHT][BLOCK_HEADS], largest[BLOCK_HEADS];
        const bool last = pass + kPassRows >= end;
        score_rows(rows, scaled, first, end, score);
#pragma unroll
        for (int h = 0; h < BLOCK_HEADS; ++h) largest[h] = maximum[h];
        warp_maximum(score, largest);
        if (last) block_maximum(shared, warp, lane, largest);
        weigh_rows(rows, score, maximum, largest, sum, value);
#pragma unroll
        for (int h = 0; h < BLOCK_HEADS; ++h) maximum[h] = largest[h];
        if (last) break;
        first += kPassRows;
        load_rows(keys, first, end, column, rows.key);
        load_rows(values, first, end, column, rows.value);
    }

    const int offset = warp_sum<kRowLanes, kWidth / 2>(lane, sum, value);
    share_warp_sums(shared, warp, lane, offset, sum, value);
#if CLUSTER_MERGE
    const Partial partial = {shared.split_maximum[0], shared.split_sum[0], shared.split_value[0]};
    await_cluster();  // the first block has started, so its shared memory may be written
#elif SPLITS > 1
    float* const norms = workspace + (long long)gridDim.x * kOutputs;
    const Partial partial = {norms + unit * SPLITS * BLOCK_HEADS, norms + (gridDim.x + unit * SPLITS) * BLOCK_HEADS,
                             workspace + unit * SPLITS * kOutputs};
#endif
    for (int item = threadIdx.x; item < kOutputs * kWarpShare; item += kThreads) {
        const int output = item / kWarpShare, share = item % kWarpShare, head = output / HEAD_SIZE;
        float block_sum = 0.0f, block_value = 0.0f;
#pragma unroll
        for (int w = 0; w < BLOCK_WARPS; w += kWarpShare) {
            block_sum += shared.warp_sum[head][w + share];
            block_value += shared.warp_value[w + share][output];
        }
        block_sum = add_lanes(block_sum, kWarpShare);
        block_value = add_lanes(block_value, kWarpShare);
        if (share > 0) continue;
#if SPLITS > 1
        put(partial.value + split * kOutputs + output, block_value);
        if (output % HEAD_SIZE == 0) put(partial.sum + split * BLOCK_HEADS + head, block_sum);
#else
        store_result(out, first_result + output, block_value / block_sum);
#endif
    }
#if SPLITS > 1
#pragma unroll
    for (int h = 0; h < BLOCK_HEADS; ++h)
        if (threadIdx.x == 0) put(partial.maximum + split * BLOCK_HEADS + h, maximum[h]);
#if CLUSTER_MERGE
    announce_writes();
    await_cluster();
    if (split > 0) return;
#else
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        shared.arrived = atomicAdd(arrivals + unit, 1u);
    }
    __syncthreads();
    if (shared.arrived != SPLITS - 1) return;
    __threadfence();
    if (threadIdx.x == 0) arrivals[unit] = 0;
#endif
    merge_splits(partial, out, first_result);
#endif
}
