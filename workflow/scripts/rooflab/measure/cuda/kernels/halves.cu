// fp16 (FORMAT 1) and bf16 (FORMAT 2) to fp32 and back, without a header.

typedef unsigned int u32;
typedef unsigned short u16;

__device__ __forceinline__ float widen(u32 bits) {
    float r;
    if (FORMAT == 1)
        asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((u16)bits));
    else
        r = __uint_as_float(bits << 16);
    return r;
}

__device__ __forceinline__ u32 narrow(float x) {
    if (FORMAT == 1) {
        u16 r;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
        return r;
    }
    const u32 bits = __float_as_uint(x);
    return x != x ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
