// Attention on Tensor Cores: the few instructions written by hand, and the number formats. The first file of the kernels
// that multiply there.
//
// Defined by the caller: KV_FORMAT (1 fp16, 2 bf16, 3 fp8 e4m3 with an fp16 query and result), STAGES (tiles in shared
// memory: one in use, the others on their way). Needs compute capability 8.0.
//
// Both products are mma.m16n8k16: a (16 x 16) times b (16 x 8). Lane 4 g + t holds of `a` rows g and g + 8, of `b` column g, of
// both the places 2t, 2t + 1, 2t + 8, 2t + 9 along what is summed over; of the result rows g and g + 8, columns 2t and
// 2t + 1. (NVIDIA, "PTX ISA", section "Matrix fragments for mma.m16n8k16".) What is summed over may come in any order if it is
// the same in `a` and `b`: so a lane takes 16 neighbouring bytes of a row, as they lie in memory.

typedef unsigned int u32;
typedef unsigned short u16;

constexpr int kElements = KV_FORMAT == 3 ? 16 : 8;  // of the cache in a 16-byte chunk
constexpr int kQueryWords = kElements / 2;          // of a query beside a chunk
constexpr u32 kOnes = KV_FORMAT == 2 ? 0x3f803f80u : 0x3c003c00u;  // a word of two
constexpr float kLowest = -3.0e38f;  // finite, so that the difference of two is a number
constexpr float kHeadroom = 8.0f;    // weights are relative to 2^-8 of the largest so far: fp16 rounds small ones less
constexpr float kRoom = 14.0f;       // a weight may grow to 2^14 before all is put on a new scale
#define kMinusInfinity __uint_as_float(0xff800000u)

struct alignas(16) Vector {
    u32 word[4];
};

// ---- memory

__device__ __forceinline__ u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

// 16 bytes from device to shared memory behind the thread's back; zeros where not `wanted`
__device__ __forceinline__ void copy_later(u32 to, const char* from, bool wanted) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(wanted ? 16 : 0) : "memory");
}

__device__ __forceinline__ void close_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// until at most `pending` groups are under way
template <int pending>
__device__ __forceinline__ void wait_for_groups() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

__device__ __forceinline__ Vector load_shared(u32 address) {
    Vector r;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r.word[0]), "=r"(r.word[1]), "=r"(r.word[2]), "=r"(r.word[3])
                 : "r"(address)
                 : "memory");
    return r;
}

// ---- arithmetic

__device__ __forceinline__ float exponential2(float x) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

// c += a b
__device__ __forceinline__ void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#if KV_FORMAT == 2
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
#else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
#endif
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// four bytes of eight: each digit of `which`, lowest first, names one
__device__ __forceinline__ u32 bytes_of(u32 low, u32 high, u32 which) {
    u32 r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(low), "r"(high), "r"(which));
    return r;
}

// ---- number formats

// two numbers of the query's format in a word
__device__ __forceinline__ u32 narrow(float low, float high) {
    u32 r;
#if KV_FORMAT == 2
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
#else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
#endif
    return r;
}

// two fp16 numbers in a word, from two e4m3 codes
__device__ __forceinline__ u32 halves_from_e4m3(u32 codes) {
    u32 r;
#if __CUDA_ARCH__ >= 890
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((u16)codes));
#else
    const u32 spread = bytes_of(codes, 0, 0x1404);  // each code in the upper byte of its half
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"((spread & 0x7f007f00u) >> 1), "r"(0x5c005c00u));  // 2^8: bias 7, not 15
    if ((spread & 0x7f00u) == 0x7f00u) r |= 0x7fffu;
    if ((spread & 0x7f000000u) == 0x7f000000u) r |= 0x7fff0000u;
    r |= spread & 0x80008000u;
#endif
    return r;
}

// a chunk's numbers, two in a word
__device__ __forceinline__ void widen_chunk(const Vector& x, u32 (&words)[kQueryWords]) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
#if KV_FORMAT == 3
        words[2 * w] = halves_from_e4m3(x.word[w] & 0xffff);
        words[2 * w + 1] = halves_from_e4m3(x.word[w] >> 16);
#else
        words[w] = x.word[w];
#endif
    }
}

// the numbers 2 `pair` and 2 `pair` + 1 of two rows' chunks, transposed: a word holds one number of either row
__device__ __forceinline__ void pair_rows(const Vector& even, const Vector& odd, int pair, u32& first, u32& second) {
#if KV_FORMAT == 3
    const u32 codes = bytes_of(even.word[pair / 2], odd.word[pair / 2], pair % 2 ? 0x7362 : 0x5140);
    first = halves_from_e4m3(codes & 0xffff);
    second = halves_from_e4m3(codes >> 16);
#else
    first = bytes_of(even.word[pair], odd.word[pair], 0x5410);
    second = bytes_of(even.word[pair], odd.word[pair], 0x7632);
#endif
}
