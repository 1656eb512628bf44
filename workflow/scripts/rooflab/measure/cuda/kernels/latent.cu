// Absorbed latent attention of one token per sequence: all heads read the same cached rows, once. A block takes 16 heads
// and a share of a sequence: scores = q C^T on Tensor Cores, a running softmax, sum = weights C over the first RANK columns.
//
// Defined by the caller: FORMAT (1 fp16, 2 bf16), RANK, ROPE (elements of the latent and of the rotary key in a row),
// STAGES (tiles of rows in shared memory: one in use, the others on their way). Needs compute capability 8.0.

constexpr int kHeads = 16;  // of a block: the rows of one Tensor Core instruction
constexpr int kRows = 32;   // of a tile: a lane each in the softmax
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kRow = RANK + ROPE;
constexpr int kChunks = kRow / 8;          // 16-byte pieces of a row
constexpr int kStride = kRow + 8;          // one piece more: eight rows at one column lie in different banks
constexpr int kWeightStride = kRows + 8;   // likewise
constexpr int kColumns = RANK / kWarps;    // of the result that a warp sums
constexpr int kTiles = kColumns / 8;
static_assert(kRow % 32 == 0 && kColumns % 16 == 0, "whole Tensor Core tiles");

struct Shared {
    u16 tile[STAGES][kRows][kStride];
    u16 query[kHeads][kStride];
    u16 weight[kHeads][kWeightStride];
    float score[kHeads][kRows + 1];
    float correction[kHeads];
    float maximum[kHeads];
    float sum[kHeads];
};

// ---- parts

// `count` rows to shared memory, of which the first `present` exist
__device__ __forceinline__ void fetch(u16 (*to)[kStride], const u16* from, int count, int present) {
    for (int at = threadIdx.x; at < count * kChunks; at += kThreads) {
        const int row = at / kChunks, column = at % kChunks * 8;
        const bool wanted = row < present;
        copy_later(&to[row][column], from + (wanted ? (long long)row * kRow + column : 0), wanted);
    }
}

// scores of all heads against the warp's eight rows of a tile, to shared memory
__device__ __forceinline__ void score(Shared& s, const u16 (*tile)[kStride], int warp, int lane) {
    const u16* queries = &s.query[lane % 16][lane / 16 * 8];
    const u16* rows = &tile[warp * 8 + lane % 8][lane / 8 * 8];
    float even[4] = {}, odd[4] = {};
#pragma unroll 6
    for (int k = 0; k < kRow; k += 32) {
        u32 a[4], b[4];
        load_matrices(b, rows + k);
        load_matrices(a, queries + k);
        multiply(even, a, b[0], b[1]);
        load_matrices(a, queries + k + 16);
        multiply(odd, a, b[2], b[3]);
    }
    const int head = lane / 4, row = warp * 8 + lane % 4 * 2;
    s.score[head][row] = even[0] + odd[0];
    s.score[head][row + 1] = even[1] + odd[1];
    s.score[head + 8][row] = even[2] + odd[2];
    s.score[head + 8][row + 1] = even[3] + odd[3];
}

// result += weights tile, over the warp's columns, after what was summed so far is put on the new scale
__device__ __forceinline__ void accumulate(Shared& s, const u16 (*tile)[kStride], float (&kept)[kTiles][4], int warp, int lane) {
    const float low = s.correction[lane / 4], high = s.correction[lane / 4 + 8];
    u32 a[kRows / 16][4];
#pragma unroll
    for (int i = 0; i < kRows / 16; ++i) load_matrices(a[i], &s.weight[lane % 16][i * 16 + lane / 16 * 8]);
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            kept[n + half][0] *= low, kept[n + half][1] *= low;
            kept[n + half][2] *= high, kept[n + half][3] *= high;
        }
#pragma unroll
        for (int i = 0; i < kRows / 16; ++i) {
            u32 b[4];
            load_transposed(b, &tile[i * 16 + lane % 16][warp * kColumns + n * 8 + lane / 16 * 8]);
            multiply(kept[n], a[i], b[0], b[1]);
            multiply(kept[n + 1], a[i], b[2], b[3]);
        }
    }
}

// ---- kernels

// q (sequences, heads, kRow), cache (sequences, length, kRow). Blocks: sequences x groups of 16 heads x splits. With one
// split the result goes to `out` (sequences, heads, RANK); with more, each block leaves its sums in `partial`
// (blocks, 16, RANK) and their maximum and sum of weights in `scales` (blocks, 16, 2).
extern "C" __global__ void __launch_bounds__(kThreads)
    latent_attention(const u16* q, const u16* cache, u16* out, float* partial, float* scales, int heads, int length,
                     int splits, float scale) {
    extern __shared__ __align__(16) unsigned char memory[];
    Shared& s = *reinterpret_cast<Shared*>(memory);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int groups = (heads + kHeads - 1) / kHeads;
    const int split = blockIdx.x % splits, group = blockIdx.x / splits % groups, sequence = blockIdx.x / splits / groups;
    const int share = ((length + splits - 1) / splits + kRows - 1) / kRows * kRows;
    const int begin = split * share, count = length - begin < share ? length - begin : share;
    const int tiles = count > 0 ? (count + kRows - 1) / kRows : 0;
    const u16* rows = cache + ((long long)sequence * length + begin) * kRow;
    const long long first_head = (long long)sequence * heads + group * kHeads;
    const int present = heads - group * kHeads < kHeads ? heads - group * kHeads : kHeads;

    fetch(s.query, q + first_head * kRow, kHeads, present);
    for (int tile = 0; tile < STAGES - 1; ++tile) {
        if (tile < tiles) fetch(s.tile[tile], rows + (long long)tile * kRows * kRow, kRows, count - tile * kRows);
        close_group();
    }
    float kept[kTiles][4] = {};
    float maximum[kHeads / kWarps], sum[kHeads / kWarps];  // of the heads whose softmax this warp does
    for (int i = 0; i < kHeads / kWarps; ++i) maximum[i] = -3.4e38f, sum[i] = 0.0f;

    for (int tile = 0; tile < tiles; ++tile) {
        wait_for_oldest();
        __syncthreads();
        const int next = tile + STAGES - 1;
        if (next < tiles)
            fetch(s.tile[next % STAGES], rows + (long long)next * kRows * kRow, kRows, count - next * kRows);
        close_group();
        const u16(*here)[kStride] = s.tile[tile % STAGES];
        score(s, here, warp, lane);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kHeads / kWarps; ++i) {
            const int head = warp * (kHeads / kWarps) + i;
            const float x = tile * kRows + lane < count ? s.score[head][lane] * scale : -3.4e38f;
            const float highest = fmaxf(maximum[i], warp_maximum(x)), before = exponential2(maximum[i] - highest);
            const float weight = exponential2(x - highest);
            s.weight[head][lane] = (u16)narrow(weight);
            if (lane == 0) s.correction[head] = before;
            sum[i] = sum[i] * before + warp_sum(weight);
            maximum[i] = highest;
        }
        __syncthreads();
        accumulate(s, here, kept, warp, lane);
    }
#pragma unroll
    for (int i = 0; i < kHeads / kWarps; ++i)
        if (lane == 0) {
            s.maximum[warp * (kHeads / kWarps) + i] = maximum[i];
            s.sum[warp * (kHeads / kWarps) + i] = sum[i];
        }
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int head = lane / 4 + 8 * half;
        if (head >= present) continue;
        const float inverse = 1.0f / s.sum[head];
        for (int n = 0; n < kTiles; ++n) {
            const int column = warp * kColumns + n * 8 + lane % 4 * 2;
            const float x = kept[n][2 * half], y = kept[n][2 * half + 1];
            if (splits == 1)
                *(u32*)&out[(first_head + head) * RANK + column] = narrow(x * inverse) | narrow(y * inverse) << 16;
            else {
                float* to = &partial[((long long)blockIdx.x * kHeads + head) * RANK + column];
                to[0] = x, to[1] = y;
            }
        }
    }
    if (splits > 1 && threadIdx.x < kHeads) {
        scales[((long long)blockIdx.x * kHeads + threadIdx.x) * 2] = s.maximum[threadIdx.x];
        scales[((long long)blockIdx.x * kHeads + threadIdx.x) * 2 + 1] = s.sum[threadIdx.x];
    }
}

// Sums the splits. Blocks: sequences x heads x RANK / 32 columns; a warp takes every kWarps-th split, a lane a column.
extern "C" __global__ void __launch_bounds__(kThreads)
    merge_splits(const float* partial, const float* scales, u16* out, int heads, int splits) {
    __shared__ float values[kWarps][32], sums[kWarps];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int part = blockIdx.x % (RANK / 32), unit = blockIdx.x / (RANK / 32);
    const int head = unit % heads, groups = (heads + kHeads - 1) / kHeads;
    const long long first = (long long)(unit / heads * groups + head / kHeads) * splits;
    float highest = -3.4e38f, sum = 0.0f, value = 0.0f;
    for (int split = lane; split < splits; split += 32)
        highest = fmaxf(highest, scales[((first + split) * kHeads + head % kHeads) * 2]);
    highest = warp_maximum(highest);
#pragma unroll 8
    for (int split = warp; split < splits; split += kWarps) {
        const long long at = (first + split) * kHeads + head % kHeads;
        const float factor = exponential2(scales[at * 2] - highest);
        sum += factor * scales[at * 2 + 1];
        value += factor * partial[at * RANK + part * 32 + lane];
    }
    values[warp][lane] = value;
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    if (warp > 0) return;
    value = sum = 0.0f;
    for (int i = 0; i < kWarps; ++i) value += values[i][lane], sum += sums[i];
    out[(long long)unit * RANK + part * 32 + lane] = (u16)narrow(value / sum);
}
