// Absorbed latent attention: sizes, and what a block does with a tile of cached rows.
//
// Defined by the caller, beside what tensor.cu wants: RANK, ROPE (elements of the latent and of the rotary key in a
// row), CLUSTER_SPLITS (ranges of a sequence that a thread-block cluster merges; 1 for none), SHARED_BYTES (of a block).

constexpr int kHeads = 16;  // of a block: one side of a product
constexpr int kTileRows = 32;
constexpr int kWarps = 16;
constexpr int kThreads = kWarps * 32;
constexpr int kRow = RANK + ROPE;
constexpr int kRowChunks = kRow / kElements;
constexpr int kPitch = (kRowChunks + 7) / 8 * 8;  // chunks from row to row in shared memory: whole sets of banks
constexpr int kTileBytes = kTileRows * kPitch * 16;
constexpr int kSteps = kPitch / 4;                // of a row, in which the four lanes that share it take a chunk each
constexpr int kKeyParts = 4;                      // of a row, a warp each: eight rows times four parts are the warps of a tile
constexpr int kKeySteps = (kSteps + kKeyParts - 1) / kKeyParts;
constexpr int kScoreStride = kTileRows + 8;       // heads that are written together lie in different banks
constexpr int kWeightStride = kTileRows + 8;      // likewise
constexpr int kWarpHeads = kHeads / kWarps;       // whose softmax a warp does, a lane a row
constexpr int kHalves = kTileRows / 16;           // of a tile's rows, whose sums different warps keep
constexpr int kColumnWarps = kWarps / kHalves;
constexpr int kColumnSteps = (RANK / 64 + kColumnWarps - 1) / kColumnWarps;  // of 64 columns, that a warp sums
static_assert(kRow % 16 == 0 && RANK % 64 == 0, "whole chunks and whole steps");
static_assert(kHalves == 2 && kWarps == kTileRows / 8 * kKeyParts, "every warp has its part");
static_assert(STAGES >= 4, "three tiles in use, and one on its way");

struct Shared {
    union {
        unsigned char tile[STAGES][kTileBytes];
        float value[kHeads][RANK + 8];  // at the end: of one half, then of all rows
    };
    float score[2][kKeyParts][kHeads][kScoreStride];
    u16 weight[2][kHeads][kWeightStride];
    float reference[2][kHeads];
    float total[kHeads];
};
static_assert(sizeof(Shared) <= SHARED_BYTES, "what the launch asks for");

// A lane's share of a block's result, of heads g and (from index 2 on) g + 8, lane = 4 g + t. value[j][m]: column m of the
// eights 2t and 2t + 1 of 64 columns; relative to 2^reference like their sums of weights.
struct Sums {
    float value[kColumnSteps][8][4];
    float weight[4];
    float reference[2];
};

typedef u32 Query[kKeySteps][kQueryWords / 2][4];
typedef float Scores[kKeyParts][kHeads][kScoreStride];

// A row's chunks lie in an order of its own, so that the lanes that read together use different banks.
__device__ __forceinline__ int swizzle(int row) { return ((row >> 1 & 3) ^ (row & 1) << 1) << 1; }

// A tile, of whose rows the first `present` exist. Sixteen threads copy a row.
__device__ __forceinline__ void fetch_tile(u32 to, const char* from, int present) {
    const int row = threadIdx.x / 16, chunk = threadIdx.x % 16;
    const bool wanted = row < present;
    const char* source = from + (wanted ? row * (kRowChunks * 16) : 0) + chunk * 16;
    const u32 target = to + (row * kPitch + (chunk ^ swizzle(row))) * 16;
#pragma unroll
    for (int i = 0; i < (kPitch + 15) / 16; ++i)
        if (chunk + i * 16 < kRowChunks) copy_later(target + i * 256, source + i * 256, wanted);
}

// zeros where rows are shorter than their pitch: no copy ever writes there
__device__ __forceinline__ void clear_stages(u32 address) {
    if (kRowChunks % 8 == 0) return;
    for (int at = threadIdx.x; at < STAGES * kTileBytes / 16; at += kThreads)
        asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(address + at * 16), "r"(0) : "memory");
    __syncthreads();
}

// the warp's part of the first `present` queries from `query` on, as the left side of a product
__device__ __forceinline__ void load_query(const Vector* query, int present, int part, int lane, Query& words) {
#pragma unroll
    for (int j = 0; j < kKeySteps; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h)
#pragma unroll
            for (int v = 0; v < kQueryWords / 4; ++v) {
                const int head = lane / 4 + h * 8, chunk = lane % 4 + (j * kKeyParts + part) * 4;
                Vector x = {};
                if (head < present && chunk < kRowChunks) x = query[(head * kRowChunks + chunk) * (kQueryWords / 4) + v];
#pragma unroll
                for (int w = 0; w < 4; ++w) words[j][(v * 4 + w) / 2][w % 2 * 2 + h] = x.word[w];
            }
}

// the warp's part of the scores of eight rows, to shared memory
__device__ __forceinline__ void score_rows(u32 tile, const Query& query, int rows, int part, int lane, Scores& to) {
    float even[4] = {}, odd[4] = {};
    const int row = rows * 8 + lane / 4;
    const u32 from = tile + (row * kPitch + part / 2 * 8 + ((lane % 4 + part % 2 * 4) ^ swizzle(row))) * 16;
#pragma unroll
    for (int j = 0; j < kKeySteps; ++j) {
        if (kSteps % kKeyParts != 0 && j * kKeyParts + part >= kSteps) break;
        u32 words[kQueryWords];
        widen_chunk(load_shared(from + j * (kKeyParts * 64)), words);
#pragma unroll
        for (int k = 0; k < kQueryWords / 2; k += 2) {
            multiply(even, query[j][k], words[2 * k], words[2 * k + 1]);
            multiply(odd, query[j][k + 1], words[2 * k + 2], words[2 * k + 3]);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) to[part][lane / 4 + i / 2 * 8][rows * 8 + lane % 4 * 2 + i % 2] = even[i] + odd[i];
}

// softmax numerators of the warp's heads for the tile's first `present` rows, and what they are relative to
__device__ __forceinline__ void weigh_rows(Shared& shared, int tile, float scale, int present, int warp, int lane,
                                           float (&reference)[kWarpHeads]) {
    const auto& parts = shared.score[tile % 2];
    float score[kWarpHeads];
    bool higher = false;
#pragma unroll
    for (int h = 0; h < kWarpHeads; ++h) {
        const int head = warp * kWarpHeads + h;
        float sum = 0.0f;
#pragma unroll
        for (int part = 0; part < kKeyParts; ++part) sum += parts[part][head][lane];
        score[h] = lane < present ? sum * scale : kMinusInfinity;
        higher |= score[h] - reference[h] > kRoom;
    }
    if (__any_sync(~0u, higher))
#pragma unroll
        for (int h = 0; h < kWarpHeads; ++h) {
            float largest = score[h];
#pragma unroll
            for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
            reference[h] = fmaxf(reference[h], largest - kHeadroom);
        }
#pragma unroll
    for (int h = 0; h < kWarpHeads; ++h) {
        const int head = warp * kWarpHeads + h;
        shared.weight[tile % 2][head][lane] = (u16)(narrow(exponential2(score[h] - reference[h]), 0.0f) & 0xffff);
        if (lane == 0) shared.reference[tile % 2][head] = reference[h];
    }
}

// puts the sums on the scale of a tile's weights
__device__ __forceinline__ void follow_reference(const float (&reference)[kHeads], int lane, Sums& sums) {
    const float next[2] = {reference[lane / 4], reference[lane / 4 + 8]};
    if (!__any_sync(~0u, next[0] != sums.reference[0] || next[1] != sums.reference[1])) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const float decay = exponential2(sums.reference[h] - next[h]);
        sums.reference[h] = next[h];
#pragma unroll
        for (int i = 2 * h; i < 2 * h + 2; ++i) {
            sums.weight[i] *= decay;
#pragma unroll
            for (int j = 0; j < kColumnSteps; ++j)
#pragma unroll
                for (int m = 0; m < 8; ++m) sums.value[j][m][i] *= decay;
        }
    }
}

// eight of the cached columns, in a row of shared memory
__device__ __forceinline__ Vector load_columns(u32 tile, int row, int eight) {
#if KV_FORMAT == 3
    Vector r = {};
    const u32 from = tile + (row * kPitch + (eight / 2 ^ swizzle(row))) * 16 + eight % 2 * 8;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(r.word[0]), "=r"(r.word[1]) : "r"(from) : "memory");
    return r;
#else
    return load_shared(tile + (row * kPitch + (eight ^ swizzle(row))) * 16);
#endif
}

// The sums += weights times the first RANK columns of sixteen of the tile's rows. The sum of weights is a product too, so it has
// their rounding.
__device__ __forceinline__ void add_values(u32 tile, const u16 (&weights)[kHeads][kWeightStride], int warp, int lane, Sums& sums) {
    const int half = warp / kColumnWarps;
    u32 weight[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
        weight[i] = *reinterpret_cast<const u32*>(&weights[lane / 4 + i % 2 * 8][half * 16 + i / 2 * 8 + lane % 4 * 2]);
    multiply(sums.weight, weight, kOnes, kOnes);
#pragma unroll
    for (int j = 0; j < kColumnSteps; ++j) {
        const int step = warp % kColumnWarps + j * kColumnWarps;
        if (RANK / 64 % kColumnWarps != 0 && step >= RANK / 64) break;
        Vector x[4];
#pragma unroll
        for (int r = 0; r < 4; ++r)
            x[r] = load_columns(tile + (half * 2 + r / 2) * 8 * kPitch * 16, lane % 4 * 2 + r % 2, step * 8 + lane / 4);
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            u32 first[2], second[2];
            pair_rows(x[0], x[1], m, first[0], second[0]);
            pair_rows(x[2], x[3], m, first[1], second[1]);
            multiply(sums.value[j][2 * m], weight, first[0], first[1]);
            multiply(sums.value[j][2 * m + 1], weight, second[0], second[1]);
        }
    }
}

// Through shared memory, the sums of both halves of the rows to the warps of the first, which are on one scale; they leave them
// there too.
__device__ __forceinline__ void add_halves(Shared& shared, int warp, int lane, Sums& sums) {
    __syncthreads();
    for (int half = kHalves - 1; half >= 0; --half) {
        if (warp / kColumnWarps == half)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int head = lane / 4 + h * 8;
                if (half > 0 && warp % kColumnWarps == 0 && lane % 4 == 0) shared.total[head] = sums.weight[2 * h];
                if (half == 0) sums.weight[2 * h] += shared.total[head];
#pragma unroll
                for (int j = 0; j < kColumnSteps; ++j)
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        const int column = ((warp % kColumnWarps + j * kColumnWarps) * 8 + lane % 4 * 2 + i) * 8;
                        if (column >= RANK) continue;
#pragma unroll
                        for (int m = 0; m < 8; ++m) {
                            float& kept = shared.value[head][column + m];
                            float& own = sums.value[j][m][2 * h + i];
                            kept = own = half > 0 ? own : own + kept;
                        }
                    }
            }
        __syncthreads();
    }
}
