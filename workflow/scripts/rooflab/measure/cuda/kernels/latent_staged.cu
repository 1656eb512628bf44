// Absorbed latent attention of one token per sequence on Tensor Cores: all heads read the same cached rows, once. A block takes 16
// heads and a share of a sequence: scores = q C^T, a running softmax, sum = weights C over the first RANK columns.
//
// Between two barriers the warps score one tile, each eight rows and a quarter of their elements; do the softmax of the tile
// before, a head each; and add the tile before that to the sums, each sixteen rows and some of the columns.
//
// The last of the files that make up the kernel, after tensor.cu, cluster.cu and latent_staged_tiles.cu.

__device__ __forceinline__ Vector narrow_eight(const float (&x)[8][4], int i, float factor) {
    Vector r;
#pragma unroll
    for (int w = 0; w < 4; ++w) r.word[w] = narrow(x[2 * w][i] * factor, x[2 * w + 1][i] * factor);
    return r;
}

__device__ __forceinline__ Vector four_of(const float (&x)[8][4], int first, int i) {
    Vector r;
#pragma unroll
    for (int w = 0; w < 4; ++w) r.word[w] = __float_as_uint(x[first + w][i]);
    return r;
}

#if CLUSTER_SPLITS > 1
#define CLUSTER_SHAPE __cluster_dims__(CLUSTER_SPLITS, 1, 1)

// Adds up the ranges of the cluster's blocks, each block a part of the first `present` heads, and stores them from `out` on.
__device__ __forceinline__ void merge_cluster(Shared& shared, const Sums& sums, u32* out, int present, int warp, int lane) {
    if (warp == 0 && lane % 4 == 0)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            shared.total[lane / 4 + h * 8] = sums.weight[2 * h];
            shared.reference[0][lane / 4 + h * 8] = sums.reference[h];
        }
    await_cluster();
    constexpr int share = kHeads * RANK / 4 / CLUSTER_SPLITS;
    for (int i = threadIdx.x; i < share; i += kThreads) {
        const int quad = blockIdx.x % CLUSTER_SPLITS * share + i, head = quad / (RANK / 4), column = quad % (RANK / 4) * 4;
        float reference[CLUSTER_SPLITS], highest = kLowest, weight = 0.0f, value[4] = {};
#pragma unroll
        for (int block = 0; block < CLUSTER_SPLITS; ++block) {
            reference[block] = load_float(address_in(&shared.reference[0][head], block));
            highest = fmaxf(highest, reference[block]);
        }
#pragma unroll
        for (int block = 0; block < CLUSTER_SPLITS; ++block) {
            const float factor = exponential2(reference[block] - highest);
            const Quad x = load_quad(address_in(&shared.value[head][column], block));
            weight += factor * load_float(address_in(&shared.total[head], block));
#pragma unroll
            for (int k = 0; k < 4; ++k) value[k] += factor * x.at[k];
        }
        const float inverse = 1.0f / weight;
        if (head >= present) continue;
        out[quad * 2] = narrow(value[0] * inverse, value[1] * inverse);
        out[quad * 2 + 1] = narrow(value[2] * inverse, value[3] * inverse);
    }
    await_cluster();  // others still read this block's shared memory
}
#else
#define CLUSTER_SHAPE
#endif

// q (sequences, heads, kRow), cache (sequences, length, kRow). Blocks: sequences x groups of 16 heads x splits, splits
// fastest. With one split, or with as many as a cluster merges, the result goes to `out` (sequences, heads, RANK); with more, each block leaves its sums in
// `partial` (blocks, 16, RANK), and their scale and sum of weights in `scales` (blocks, 16, 2). scale: log2(e) times that of
// the scores.
extern "C" __global__ void __launch_bounds__(kThreads, 1) CLUSTER_SHAPE
latent_attention(const Vector* q, const char* cache, Vector* out, Vector* partial, float* scales, int heads, int length, int splits,
                 float scale) {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rows = warp % 4, part = warp / 4;
    const int groups = (heads + kHeads - 1) / kHeads;
    const int split = blockIdx.x % splits, group = blockIdx.x / splits % groups, sequence = blockIdx.x / splits / groups;
    const int all = (length + kTileRows - 1) / kTileRows, range = (all + splits - 1) / splits;
    const int begin = split * range, tiles = max(0, min(range, all - begin));
    const int present_heads = min(kHeads, heads - group * kHeads);
    const long long first_head = (long long)sequence * heads + group * kHeads;
    const char* const first = cache + ((long long)sequence * length + begin * kTileRows) * (kRowChunks * 16);

    const u32 stages = shared_address(shared.tile);
    const auto fetch = [&](int tile, int stage) {
        if (tile < tiles)
            fetch_tile(stages + stage * kTileBytes, first + (long long)tile * (kTileRows * kRowChunks * 16),
                       length - (begin + tile) * kTileRows);
        close_group();
    };
    clear_stages(stages);
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) fetch(stage, stage);
    Query words;
    load_query(q + first_head * (kRow / 8), present_heads, part, lane, words);
    Sums sums = {};
    sums.reference[0] = sums.reference[1] = kLowest;
    float reference[kWarpHeads];
#pragma unroll
    for (int h = 0; h < kWarpHeads; ++h) reference[h] = kLowest;
    wait_for_groups<STAGES - 3>();
    __syncthreads();
    for (int tile = 0; tile < 2; ++tile) score_rows(stages + tile * kTileBytes, words, rows, part, lane, shared.score[tile]);
    __syncthreads();
    const int count = length - begin * kTileRows;  // of rows from the first on
    weigh_rows(shared, 0, scale, count, warp, lane, reference);

    // past the last tile this scores and weighs what earlier ones left: nobody reads it
    int stage = 0;
    for (int tile = 0; tile < tiles; ++tile) {
        wait_for_groups<STAGES - 4>();
        __syncthreads();
        fetch(tile + STAGES - 1, stage == 0 ? STAGES - 1 : stage - 1);
        weigh_rows(shared, tile + 1, scale, count - (tile + 1) * kTileRows, warp, lane, reference);
        follow_reference(shared.reference[tile % 2], lane, sums);
        const int ahead = stage + 2 < STAGES ? stage + 2 : stage + 2 - STAGES;
        score_rows(stages + ahead * kTileBytes, words, rows, part, lane, shared.score[tile % 2]);
        add_values(stages + stage * kTileBytes, shared.weight[tile % 2], warp, lane, sums);
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
    add_halves(shared, warp, lane, sums);
#if CLUSTER_SPLITS > 1
    merge_cluster(shared, sums, (u32*)out + first_head * (RANK / 2), present_heads, warp, lane);
#else
    if (warp >= kColumnWarps) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int head = lane / 4 + h * 8;
        if (head >= present_heads) continue;
        const float inverse = 1.0f / sums.weight[2 * h];
        const long long kept = (long long)blockIdx.x * kHeads + head;
        if (splits > 1 && warp == 0 && lane % 4 == 0) {
            scales[kept * 2] = sums.reference[h];
            scales[kept * 2 + 1] = sums.weight[2 * h];
        }
#pragma unroll
        for (int j = 0; j < kColumnSteps; ++j)
#pragma unroll
            for (int i = 2 * h; i < 2 * h + 2; ++i) {
                const int column = ((warp + j * kColumnWarps) * 8 + lane % 4 * 2 + i % 2) * 8;
                if (column < RANK && splits == 1)
                    out[((first_head + head) * RANK + column) / 8] = narrow_eight(sums.value[j], i, inverse);
                else if (column < RANK)
#pragma unroll
                    for (int m = 0; m < 8; m += 4) partial[(kept * RANK + column + m) / 4] = four_of(sums.value[j], m, i);
            }
    }
#endif
}

// Adds up the splits. A block per sequence and head: four columns a thread, shared by blockDim.y threads, each every
// blockDim.y-th split; at most kMostShares of them.
constexpr int kMostShares = 8;
extern "C" __global__ void __launch_bounds__(RANK / 4 * kMostShares)
merge_splits(const Vector* partial, const float* scales, u32* out, int heads, int splits) {
    __shared__ Vector values[kMostShares][RANK / 4];
    __shared__ float weights[kMostShares];
    const int column = threadIdx.x, share = threadIdx.y, head = blockIdx.x % heads, sequence = blockIdx.x / heads;
    const long long first = (long long)(sequence * ((heads + kHeads - 1) / kHeads) + head / kHeads) * splits;
    float highest = kLowest, weight = 0.0f, value[4] = {};
#pragma unroll 8
    for (int split = 0; split < splits; ++split) highest = fmaxf(highest, scales[((first + split) * kHeads + head % kHeads) * 2]);
#pragma unroll 8
    for (int split = share; split < splits; split += blockDim.y) {
        const long long at = (first + split) * kHeads + head % kHeads;
        const float factor = exponential2(scales[at * 2] - highest);
        const Vector x = partial[at * (RANK / 4) + column];
        weight += factor * scales[at * 2 + 1];
#pragma unroll
        for (int i = 0; i < 4; ++i) value[i] += factor * __uint_as_float(x.word[i]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) values[share][column].word[i] = __float_as_uint(value[i]);
    if (column == 0) weights[share] = weight;
    __syncthreads();
    if (share > 0) return;
    for (int y = 1; y < blockDim.y; ++y) {
        weight += weights[y];
#pragma unroll
        for (int i = 0; i < 4; ++i) value[i] += __uint_as_float(values[y][column].word[i]);
    }
    const float inverse = 1.0f / weight;
    const long long to = ((long long)blockIdx.x * RANK + column * 4) / 2;
    out[to] = narrow(value[0] * inverse, value[1] * inverse);
    out[to + 1] = narrow(value[2] * inverse, value[3] * inverse);
}
