// Decode attention of one token per sequence on Tensor Cores, in one launch: K and V are read once, scores never leave the
// chip. The query heads that share a KV head are one side of both products, padded to 8 or 16.
//
// A block takes one of SPLITS ranges of a sequence; its warps take tiles of sixteen rows in turn, each on its own: a warp
// copies its tiles to its own part of shared memory STAGES - 1 ahead, and waits for no other warp before the end. Sums are
// rescaled only where a score exceeds what the scale has room for. Ranges are merged in the same launch: through the shared memory
// of a thread-block cluster (CLUSTER_MERGE 1, compute capability >= 9.0), each block a part of the outputs, or by the
// block that arrives last, through global memory.
//
// Online softmax: M. Milakov, N. Gimelshein, arXiv:1805.02867. Splitting the sequence: T. Dao et al., Flash-Decoding,
// 2023. Rescaling late: T. Dao et al., FlashAttention-4, 2025.
//
// The last of the files that make up the kernel, after tensor.cu, cluster.cu, grouped_tiles.cu and grouped_merge.cu.

// One block per (sequence, KV head, part of its group, range), ranges fastest. query and out [B][Hq][HEAD_SIZE], keys and
// values [B][Hkv][sequence][HEAD_SIZE]; lengths [B] the rows of each sequence that count, or null for all; scale is
// log2(e) / sqrt(HEAD_SIZE). For the merge through memory: ranges holds one Range per block, arrivals one zero per SPLITS
// blocks, which the launch leaves at zero.
extern "C" __global__ void __launch_bounds__(kThreads, 1) CLUSTER_SHAPE
grouped_attention(const Vector* query, const char* keys, const char* values, u32* out, Range* ranges, u32* arrivals,
                  const int* lengths, int kv_heads, int sequence, float scale) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int split = blockIdx.x % SPLITS, unit = blockIdx.x / SPLITS, head = unit / kParts, part = unit % kParts;
    const int length = lengths ? lengths[head / kv_heads] : sequence;
    const int tiles = (length + kTileRows - 1) / kTileRows, range = (tiles + SPLITS - 1) / SPLITS;
    const int begin = split * range + warp, end = min(tiles, split * range + range);
    const long long first_row = (long long)head * sequence * (kRowChunks * 16);
    const long long first_head = (long long)head * GROUP + part * BLOCK_HEADS;
    const int present = min(BLOCK_HEADS, GROUP - part * BLOCK_HEADS);

    const u32 stages = shared_address(shared.stages[warp]);
    const auto fetch = [&](int tile, int stage) {
        const long long from = first_row + (long long)tile * (kTileRows * kRowChunks * 16);
        if (tile < end) fetch_tiles(stages + stage * 2 * kTileBytes, keys + from, values + from, length - tile * kTileRows, lane);
        close_group();
    };
    clear_stages(stages, lane);
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) fetch(begin + stage * BLOCK_WARPS, stage);
    Query words;
    load_query(query + first_head * (HEAD_SIZE / 8), present, lane, words);
    Sums sums = {};
#pragma unroll
    for (int h = 0; h < kHeadTiles; ++h) sums.reference[h] = kLowest;

    int stage = 0;
    for (int tile = begin; tile < end; tile += BLOCK_WARPS) {
        wait_for_groups<STAGES - 2>();
        __syncwarp();
        fetch(tile + (STAGES - 1) * BLOCK_WARPS, stage == 0 ? STAGES - 1 : stage - 1);
        const u32 here = stages + stage * 2 * kTileBytes;
        float score[2][4] = {};
        u32 weight[kHeadTiles][2];
        score_rows(here, words, lane, score);
        weigh_rows(score, scale, length - tile * kTileRows, sums, lane, weight);
        add_values(here + kTileBytes, weight, lane, sums);
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }

    share_sums(shared, sums, warp, lane);
    u32* const result = out + first_head * (HEAD_SIZE / 2);
#if SPLITS > 1
    Range& own = CLUSTER_MERGE ? shared.range : ranges[blockIdx.x];
#endif
    for (int quad = threadIdx.x; quad < kQuads; quad += kThreads) {
        const Partial sum = sum_of_warps(shared, quad);
#if SPLITS > 1
        store_range(own, quad, sum);
#else
        if (quad < present * kRowQuads) store_result(result, quad, sum);
#endif
    }
#if SPLITS > 1
#if CLUSTER_MERGE
    constexpr int share = (kQuads + SPLITS - 1) / SPLITS;
    const int first = split * share, last = min(first + share, present * kRowQuads);
    const Range* const merged = &shared.range;
    await_cluster();
#else
    const int first = 0, last = present * kRowQuads;
    const Range* const merged = ranges + unit * SPLITS;
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
    for (int quad = first + threadIdx.x; quad < last; quad += kThreads)
        store_result(result, quad, sum_of_ranges(merged, quad));
#if CLUSTER_MERGE
    await_cluster();  // others still read this block's shared memory
#endif
#endif
}
