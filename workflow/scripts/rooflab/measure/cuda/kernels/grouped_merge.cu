// Grouped-query decode: adding up the results of a block's warps, and of the SPLITS ranges of a sequence.

constexpr int kRowQuads = HEAD_SIZE / 4;
constexpr int kQuads = BLOCK_HEADS * kRowQuads;  // of a block's outputs
constexpr int kBatch = SPLITS < 16 ? SPLITS : 16;  // partial results that a thread loads at once

// A result before it is divided by its sum of weights; both are relative to 2^reference.
struct Partial {
    float reference, weight;
    Quad value;
};

// What a block leaves to be merged.
struct Range {
    Quad value[kQuads];
    float reference[BLOCK_HEADS], weight[BLOCK_HEADS];
};

struct Shared {
    union {
        unsigned char stages[BLOCK_WARPS][STAGES][2][kTileBytes];
        Range range;
    };
    Quad value[BLOCK_WARPS][BLOCK_HEADS][kRowQuads + 1];
    float reference[BLOCK_WARPS][16], weight[BLOCK_WARPS][16];
    u32 arrived;
};
static_assert(sizeof(Shared) <= SHARED_BYTES, "what the launch asks for");

__device__ __forceinline__ void share_sums(Shared& shared, const Sums& sums, int warp, int lane) {
#pragma unroll
    for (int h = 0; h < kHeadTiles; ++h) {
        if (lane % 4 == 0) shared.reference[warp][h * 8 + lane / 4] = sums.reference[h];
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
            const int head = h * 8 + lane % 4 * 2 + odd;
            if (lane / 4 == 0) shared.weight[warp][head] = sums.weight[h][odd];
#pragma unroll
            for (int j = 0; j < kValueSteps; ++j) {
                const int chunk = lane / 4 + j * 8;
                if (head >= BLOCK_HEADS || chunk >= kRowChunks) continue;
#pragma unroll
                for (int m = 0; m < kElements / 2; m += 2) {
                    const float(&first)[4] = sums.value[j][m][h], (&second)[4] = sums.value[j][m + 1][h];
                    shared.value[warp][head][chunk * (kElements / 4) + m / 2] =
                        Quad{{first[odd], first[odd + 2], second[odd], second[odd + 2]}};
                }
            }
        }
    }
    __syncthreads();
}

__device__ __forceinline__ void add(Partial& to, const Partial& x) {
    const float next = fmaxf(to.reference, x.reference);
    const float kept = exponential2(to.reference - next), added = exponential2(x.reference - next);
    to.reference = next;
    to.weight = to.weight * kept + x.weight * added;
#pragma unroll
    for (int i = 0; i < 4; ++i) to.value.at[i] = to.value.at[i] * kept + x.value.at[i] * added;
}

__device__ __forceinline__ Partial sum_of_warps(const Shared& shared, int quad) {
    Partial sum = {kLowest, 0.0f, {}};
#pragma unroll
    for (int w = 0; w < BLOCK_WARPS; ++w) {
        const int head = quad / kRowQuads;
        add(sum, {shared.reference[w][head], shared.weight[w][head], shared.value[w][head][quad % kRowQuads]});
    }
    return sum;
}

// out: of the block's first head
__device__ __forceinline__ void store_result(u32* out, int quad, const Partial& x) {
    const float inverse = 1.0f / x.weight;
    out[quad * 2] = narrow(x.value.at[0] * inverse, x.value.at[1] * inverse);
    out[quad * 2 + 1] = narrow(x.value.at[2] * inverse, x.value.at[3] * inverse);
}

#if SPLITS > 1
__device__ __forceinline__ void store_range(Range& range, int quad, const Partial& x) {
    range.value[quad] = x.value;
    if (quad % kRowQuads == 0) {
        range.reference[quad / kRowQuads] = x.reference;
        range.weight[quad / kRowQuads] = x.weight;
    }
}

#if CLUSTER_MERGE
#define CLUSTER_SHAPE __cluster_dims__(SPLITS, 1, 1)
#else
// what another block wrote
__device__ __forceinline__ float load_float(const float* address) {
    float r;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(r) : "l"(address) : "memory");
    return r;
}

__device__ __forceinline__ Quad load_quad(const Quad* address) {
    Quad r;
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(r.at[0]), "=f"(r.at[1]), "=f"(r.at[2]), "=f"(r.at[3])
                 : "l"(address)
                 : "memory");
    return r;
}
#endif

// the ranges' partial results of one quad: in the shared memory of the cluster's blocks, or in `ranges`
__device__ __forceinline__ Partial sum_of_ranges(const Range* ranges, int quad) {
    Partial sum = {kLowest, 0.0f, {}};
    for (int first = 0; first < SPLITS; first += kBatch) {
        Partial x[kBatch];
#pragma unroll
        for (int k = 0; k < kBatch; ++k) {
#if CLUSTER_MERGE
            x[k].value = load_quad(address_in(&ranges->value[quad], first + k));
            x[k].reference = load_float(address_in(&ranges->reference[quad / kRowQuads], first + k));
            x[k].weight = load_float(address_in(&ranges->weight[quad / kRowQuads], first + k));
#else
            x[k].value = load_quad(&ranges[first + k].value[quad]);
            x[k].reference = load_float(&ranges[first + k].reference[quad / kRowQuads]);
            x[k].weight = load_float(&ranges[first + k].weight[quad / kRowQuads]);
#endif
        }
#pragma unroll
        for (int k = 0; k < kBatch; ++k) add(sum, x[k]);
    }
    return sum;
}
#endif
#ifndef CLUSTER_SHAPE
#define CLUSTER_SHAPE
#endif
