// Decode attention: sizes, the few instructions written by hand, and the number formats.
//
// Defined by the caller: KV_FORMAT (0 fp32, 1 fp16, 2 bf16, 3 fp8 e4m3 with an fp16 query and result), HEAD_SIZE,
// BLOCK_HEADS, GROUP_PARTS (blocks that share a KV head), BLOCK_WARPS, ROWS_IN_FLIGHT, SPLITS, CLUSTER_MERGE.

typedef unsigned int u32;
typedef unsigned short u16;

#define kMinusInfinity __uint_as_float(0xff800000u)

constexpr int kElements = KV_FORMAT == 0 ? 4 : KV_FORMAT == 3 ? 16 : 8;  // of K or V in a 16-byte vector
constexpr int kQueryVectors = KV_FORMAT == 3 ? 2 : 1;                    // of the query beside one vector of K
constexpr int kRowVectors = HEAD_SIZE / kElements;
constexpr int kRowLanes =  // that share a row
    kRowVectors <= 2 ? 2 : kRowVectors <= 4 ? 4 : kRowVectors <= 8 ? 8 : kRowVectors <= 16 ? 16 : 32;
constexpr int kLaneVectors = (kRowVectors + kRowLanes - 1) / kRowLanes;
constexpr int kWidth = kLaneVectors * kElements;  // elements of a row that one lane holds
constexpr int kWarpRows = 32 / kRowLanes;         // rows that a warp loads at once
constexpr int kKept = kWidth / kWarpRows;         // elements of the warp's result that one lane ends up with
constexpr int kPassRows = BLOCK_WARPS * ROWS_IN_FLIGHT * kWarpRows;
constexpr int kThreads = BLOCK_WARPS * 32;
constexpr int kOutputs = BLOCK_HEADS * HEAD_SIZE;
constexpr int kWarpShare = BLOCK_WARPS <= 8 ? 1 : BLOCK_WARPS / 8;  // lanes that sum one output over the warps
constexpr int kPadding = kWarpShare == 1 ? 0 : 32 / kWarpShare;     // keeps those lanes in different banks
constexpr int kMost = kThreads / kOutputs < SPLITS ? kThreads / kOutputs : SPLITS;
constexpr int kSplitShare = kMost >= 8 ? 8 : kMost >= 4 ? 4 : kMost >= 2 ? 2 : 1;  // lanes that merge one output
static_assert(HEAD_SIZE % 16 == 0, "a row is whole vectors, and lanes that share an output fill whole warps");
static_assert((SPLITS & (SPLITS - 1)) == 0 && (BLOCK_WARPS & (BLOCK_WARPS - 1)) == 0, "both are powers of two");

struct alignas(16) Vector {
    u32 word[4];
};

struct Shared {
    float warp_maximum[BLOCK_HEADS][BLOCK_WARPS];
    float warp_sum[BLOCK_HEADS][BLOCK_WARPS];
    float warp_value[BLOCK_WARPS][kOutputs + kPadding];
#if CLUSTER_MERGE
    float split_maximum[SPLITS][BLOCK_HEADS];
    float split_sum[SPLITS][BLOCK_HEADS];
    float split_value[SPLITS][kOutputs];
#else
    u32 arrived;
#endif
};

// ---- instructions

// 16 bytes read past L1, zeros where not `wanted`
__device__ __forceinline__ Vector load(const Vector* address, bool wanted) {
    Vector r;
    asm volatile(
        "{ .reg .pred wanted; setp.ne.s32 wanted, %5, 0;\n"
        "mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;\n"
        "@wanted ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4]; }"
        : "=r"(r.word[0]), "=r"(r.word[1]), "=r"(r.word[2]), "=r"(r.word[3])
        : "l"(address), "r"((int)wanted));
    return r;
}

// a float that another block wrote
__device__ __forceinline__ float load_fresh(const float* address) {
    float r;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(r) : "l"(address) : "memory");
    return r;
}

__device__ __forceinline__ float exponential2(float x) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

__device__ __forceinline__ float from_half(u32 bits) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((u16)bits));
    return r;
}

__device__ __forceinline__ u16 to_half(float x) {
    u16 r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
}

// two fp16 numbers in a word, from two e4m3 codes
__device__ __forceinline__ u32 halves_from_e4m3(u32 codes) {
    u32 r;
#if __CUDA_ARCH__ >= 890
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((u16)codes));
#else
    r = 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const u32 code = codes >> (8 * i) & 0xff;
        const float magnitude = from_half((code & 0x7f) << 7) * 256.0f;  // exponent bias 7 against 15
        const u32 half = (code & 0x7f) == 0x7f ? 0x7fffu : (u32)to_half(magnitude);
        r |= (half | (code & 0x80) << 8) << (16 * i);
    }
#endif
    return r;
}

#if CLUSTER_MERGE
#define CLUSTER_SHAPE __cluster_dims__(SPLITS, 1, 1)

__device__ __forceinline__ void announce_start() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void announce_writes() {
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void await_cluster() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// writes to the same shared variable of the cluster's first block
__device__ __forceinline__ void store_first(float* own, float x) {
    u32 address = (u32)__cvta_generic_to_shared(own);
    asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(address) : "r"(address));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(x) : "memory");
}
#else
#define CLUSTER_SHAPE
#endif

// ---- number formats

__device__ __forceinline__ void widen_halves(u32 word, float* out) {
    out[0] = from_half(word & 0xffff);
    out[1] = from_half(word >> 16);
}

__device__ __forceinline__ void widen_key_or_value(const Vector& x, float* out) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#if KV_FORMAT == 0
        out[i] = __uint_as_float(x.word[i]);
#elif KV_FORMAT == 1
        widen_halves(x.word[i], out + 2 * i);
#elif KV_FORMAT == 2
        out[2 * i] = __uint_as_float(x.word[i] << 16);
        out[2 * i + 1] = __uint_as_float(x.word[i] & 0xffff0000u);
#else
        widen_halves(halves_from_e4m3(x.word[i] & 0xffff), out + 4 * i);
        widen_halves(halves_from_e4m3(x.word[i] >> 16), out + 4 * i + 2);
#endif
    }
}

__device__ __forceinline__ void widen_query(const Vector* x, float* out) {
#if KV_FORMAT == 3
#pragma unroll
    for (int i = 0; i < 8; ++i) widen_halves(x[i / 4].word[i % 4], out + 2 * i);
#else
    widen_key_or_value(x[0], out);
#endif
}

__device__ __forceinline__ void store_result(void* out, long long index, float x) {
#if KV_FORMAT == 0
    ((float*)out)[index] = x;
#elif KV_FORMAT == 2
    const u32 bits = __float_as_uint(x);  // to nearest, ties to even
    ((u16*)out)[index] = x != x ? (u16)0x7fff : (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#else
    ((u16*)out)[index] = to_half(x);
#endif
}
