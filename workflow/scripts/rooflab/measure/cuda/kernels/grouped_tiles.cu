// Grouped-query decode: sizes, and what a warp does with a tile of sixteen rows of K and of V.
//
// Defined by the caller, beside what tensor.cu wants: HEAD_SIZE, GROUP (query heads that share a KV head), BLOCK_HEADS (of
// them in a block, at most 16), BLOCK_WARPS, SPLITS (ranges of a sequence, a block each), CLUSTER_MERGE.

constexpr int kRowChunks = HEAD_SIZE / kElements;
constexpr int kPitch = (kRowChunks + 7) / 8 * 8;  // chunks from row to row in shared memory: whole sets of banks
constexpr int kTileRows = 16;
constexpr int kTileBytes = kTileRows * kPitch * 16;
constexpr int kKeySteps = (kRowChunks + 3) / 4;          // chunks of a row of K that one lane multiplies
constexpr int kValueSteps = kPitch / 8;                  // chunks of a row of V that one lane multiplies
constexpr int kHeadTiles = BLOCK_HEADS <= 8 ? 1 : 2;     // of eight heads
constexpr int kParts = (GROUP + BLOCK_HEADS - 1) / BLOCK_HEADS;  // blocks that share a KV head
constexpr int kThreads = BLOCK_WARPS * 32;
static_assert(HEAD_SIZE % 16 == 0 && BLOCK_HEADS <= 16, "whole chunks, and one side of a product");

// A lane's share of a warp's result. value: of heads 2t and 2t + 1 (and eight more) the columns of chunk g; weight likewise
// their sums of weights; both relative to 2^reference, which is that of head g (and g + 8). lane = 4 g + t.
struct Sums {
    float value[kValueSteps][kElements / 2][kHeadTiles][4];
    float weight[kHeadTiles][4];
    float reference[kHeadTiles];
};

typedef u32 Query[kHeadTiles][kKeySteps][kQueryWords];

// A row's chunks lie in shared memory in an order of its own, so that the lanes that read together use different banks.
__device__ __forceinline__ int key_place(int row, int chunk) { return row * kPitch + (chunk ^ (row & 1) << 2); }
__device__ __forceinline__ int value_place(int row, int chunk) { return row * kPitch + (chunk ^ (row >> 1 & 3) << 1); }

// A tile of K and one of V, of whose rows the first `present` exist. Lanes copy neighbouring chunks; where rows are not whole sets of
// banks, four lanes a row, which saves the divisions.
__device__ __forceinline__ void fetch_tiles(u32 to, const char* keys, const char* values, int present, int lane) {
    constexpr bool in_line = kRowChunks % 8 == 0;
    constexpr int row_lanes = in_line ? kRowChunks : 4;
    constexpr int row_steps = in_line ? 1 : kKeySteps;
#pragma unroll
    for (int i = 0; i < kTileRows * row_lanes / 32 * row_steps; ++i) {
        const int row = i / row_steps * 32 / row_lanes + lane / row_lanes, chunk = lane % row_lanes + i % row_steps * row_lanes;
        if (!in_line && chunk >= kRowChunks) continue;
        const bool wanted = row < present;
        const int from = wanted ? (row * kRowChunks + chunk) * 16 : 0;
        copy_later(to + key_place(row, chunk) * 16, keys + from, wanted);
        copy_later(to + kTileBytes + value_place(row, chunk) * 16, values + from, wanted);
    }
}

// zeros where rows are shorter than their pitch: no copy ever writes there
__device__ __forceinline__ void clear_stages(u32 address, int lane) {
    if (kRowChunks % 8 == 0) return;
    for (int at = lane; at < STAGES * 2 * kTileBytes / 16; at += 32)
        asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(address + at * 16), "r"(0) : "memory");
    __syncwarp();
}

// the first `present` query heads from `query` on, as the left side of a product
__device__ __forceinline__ void load_query(const Vector* query, int present, int lane, Query& words) {
#pragma unroll
    for (int h = 0; h < kHeadTiles; ++h)
#pragma unroll
        for (int j = 0; j < kKeySteps; ++j)
#pragma unroll
            for (int v = 0; v < kQueryWords / 4; ++v) {
                const int head = lane / 4 + h * 8, chunk = lane % 4 + j * 4;
                Vector x = {};
                if (head < present && chunk < kRowChunks) x = query[(head * kRowChunks + chunk) * (kQueryWords / 4) + v];
#pragma unroll
                for (int w = 0; w < 4; ++w) words[h][j][v * 4 + w] = x.word[w];
            }
}

// score[n][i]: of head g, from i = 2 on of head g + 8, for row 8 n + 2 t + i % 2
__device__ __forceinline__ void score_rows(u32 keys, const Query& query, int lane, float (&score)[2][4]) {
#pragma unroll
    for (int j = 0; j < kKeySteps; ++j)
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            u32 words[kQueryWords];
            widen_chunk(load_shared(keys + key_place(lane / 4 + n * 8, lane % 4 + j * 4) * 16), words);
#pragma unroll
            for (int k = 0; k < kQueryWords; k += 2) {
                const u32 low = kHeadTiles > 1 ? query[kHeadTiles - 1][j][k] : 0;
                const u32 high = kHeadTiles > 1 ? query[kHeadTiles - 1][j][k + 1] : 0;
                const u32 heads[4] = {query[0][j][k], low, query[0][j][k + 1], high};
                multiply(score[n], heads, words[k], words[k + 1]);
            }
        }
}

// puts the sums on the scale of the largest score so far
__device__ __forceinline__ void raise_reference(const float (&score)[2][4], Sums& sums, int lane) {
#pragma unroll
    for (int h = 0; h < kHeadTiles; ++h) {
        float largest = fmaxf(fmaxf(score[0][2 * h], score[0][2 * h + 1]), fmaxf(score[1][2 * h], score[1][2 * h + 1]));
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
        const float next = fmaxf(sums.reference[h], largest - kHeadroom);
        const float decay = exponential2(sums.reference[h] - next);
        sums.reference[h] = next;
        const float even = __shfl_sync(~0u, decay, lane % 4 * 8), odd = __shfl_sync(~0u, decay, lane % 4 * 8 + 4);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            sums.weight[h][i] *= i % 2 ? odd : even;
#pragma unroll
            for (int j = 0; j < kValueSteps; ++j)
#pragma unroll
                for (int m = 0; m < kElements / 2; ++m) sums.value[j][m][h][i] *= i % 2 ? odd : even;
        }
    }
}

// softmax numerators of the first `present` rows, as the right side of a product; raises the reference where one is too big
__device__ __forceinline__ void weigh_rows(float (&score)[2][4], float scale, int present, Sums& sums, int lane,
                                           u32 (&weight)[kHeadTiles][2]) {
    bool higher = false;
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int i = 0; i < 2 * kHeadTiles; ++i) {
            score[n][i] = n * 8 + lane % 4 * 2 + i % 2 < present ? score[n][i] * scale : kMinusInfinity;
            higher |= score[n][i] - sums.reference[i / 2] > kRoom;
        }
    if (__any_sync(~0u, higher)) raise_reference(score, sums, lane);
#pragma unroll
    for (int h = 0; h < kHeadTiles; ++h)
#pragma unroll
        for (int n = 0; n < 2; ++n)
            weight[h][n] = narrow(exponential2(score[n][2 * h] - sums.reference[h]),
                                  exponential2(score[n][2 * h + 1] - sums.reference[h]));
}

// The sums += V^T weights. The sum of weights is a product too, so it has their rounding.
__device__ __forceinline__ void add_values(u32 values, const u32 (&weight)[kHeadTiles][2], int lane, Sums& sums) {
    const u32 ones[4] = {kOnes, kOnes, kOnes, kOnes};
#pragma unroll
    for (int h = 0; h < kHeadTiles; ++h) multiply(sums.weight[h], ones, weight[h][0], weight[h][1]);
#pragma unroll
    for (int j = 0; j < kValueSteps; ++j) {
        Vector x[4];
#pragma unroll
        for (int r = 0; r < 4; ++r)
            x[r] = load_shared(values + value_place(lane % 4 * 2 + r % 2 + r / 2 * 8, lane / 4 + j * 8) * 16);
#pragma unroll
        for (int m = 0; m < kElements / 2; ++m) {
            u32 columns[4];
            pair_rows(x[0], x[1], m, columns[0], columns[1]);
            pair_rows(x[2], x[3], m, columns[2], columns[3]);
#pragma unroll
            for (int h = 0; h < kHeadTiles; ++h) multiply(sums.value[j][m][h], columns, weight[h][0], weight[h][1]);
        }
    }
}
