// Kernels that move memory and do nothing else. Each thread has LOADS_IN_FLIGHT independent 16-byte accesses under way;
// a block walks tiles of its threads * LOADS_IN_FLIGHT vectors, the grid strides over the tiles.
//
// Defined by the caller: LOADS_IN_FLIGHT, and RESIDENT: 0 for loads past L1 (device memory), 1 for loads that L2 serves
// and L1 never. Stores are the first to leave the cache.

typedef unsigned int u32;

struct alignas(16) Vector {
    u32 x, y, z, w;
};

__device__ __forceinline__ Vector load(const Vector* address) {
    Vector r;
#if RESIDENT
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
                 : "l"(address));
#else
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
                 : "l"(address));
#endif
    return r;
}

__device__ __forceinline__ void store(Vector* address, Vector v) {
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

__device__ __forceinline__ long long tile_size() { return (long long)blockDim.x * LOADS_IN_FLIGHT; }

__device__ __forceinline__ long long position(long long tile, int u) {
    return tile + (long long)u * blockDim.x + threadIdx.x;
}

// the sum of the words of this thread's share of `count` vectors, read `passes` times
__device__ __forceinline__ u32 read_share(const Vector* from, long long count, int passes) {
    u32 sum = 0;
    for (int pass = 0; pass < passes; ++pass)
        for (long long tile = blockIdx.x * tile_size(); tile < count; tile += gridDim.x * tile_size()) {
            Vector v[LOADS_IN_FLIGHT];
#pragma unroll
            for (int u = 0; u < LOADS_IN_FLIGHT; ++u) {
                v[u] = Vector{0, 0, 0, 0};
                if (position(tile, u) < count) v[u] = load(from + position(tile, u));
            }
#pragma unroll
            for (int u = 0; u < LOADS_IN_FLIGHT; ++u) sum += v[u].x + v[u].y + v[u].z + v[u].w;
        }
    return sum;
}

// Stores the sum only if it equals a number that it practically never is, which the compiler cannot know.
extern "C" __global__ void read_only(const Vector* from, u32* sink, long long count, int passes) {
    const u32 sum = read_share(from, count, passes);
    if (sum == 0x9e3779b9u) *sink = sum;
}

// Adds the sum to `total`: proof that read_only's loads cover each vector once a pass.
extern "C" __global__ void read_and_sum(const Vector* from, u32* total, long long count, int passes) {
    atomicAdd(total, read_share(from, count, passes));
}

extern "C" __global__ void write_only(Vector* to, u32 word, long long count) {
    const Vector v = {word, word + 1, word + 2, word + 3};
    for (long long tile = blockIdx.x * tile_size(); tile < count; tile += gridDim.x * tile_size())
#pragma unroll
        for (int u = 0; u < LOADS_IN_FLIGHT; ++u)
            if (position(tile, u) < count) store(to + position(tile, u), v);
}

__device__ __forceinline__ u32 multiply_add(u32 x, u32 y, float factor) {
    return __float_as_uint(__fadd_rn(__uint_as_float(x), __fmul_rn(factor, __uint_as_float(y))));
}

__device__ __forceinline__ Vector multiply_add(Vector a, Vector b, float factor) {
    return {multiply_add(a.x, b.x, factor), multiply_add(a.y, b.y, factor), multiply_add(a.z, b.z, factor),
            multiply_add(a.w, b.w, factor)};
}

// to = first + factor * second in fp32, rounded after each operation
extern "C" __global__ void triad(const Vector* first, const Vector* second, Vector* to, float factor, long long count) {
    for (long long tile = blockIdx.x * tile_size(); tile < count; tile += gridDim.x * tile_size()) {
        Vector a[LOADS_IN_FLIGHT], b[LOADS_IN_FLIGHT];
#pragma unroll
        for (int u = 0; u < LOADS_IN_FLIGHT; ++u)
            if (position(tile, u) < count) {
                a[u] = load(first + position(tile, u));
                b[u] = load(second + position(tile, u));
            }
#pragma unroll
        for (int u = 0; u < LOADS_IN_FLIGHT; ++u)
            if (position(tile, u) < count)
                store(to + position(tile, u), multiply_add(a[u], b[u], factor));
    }
}

// what launching costs when there is nothing to do
extern "C" __global__ void empty() {}
