// Blocks of a thread-block cluster reading each other's shared memory. What uses this needs compute capability 9.0.

struct alignas(16) Quad {
    float at[4];
};

// until all blocks of the cluster are here; what they wrote is seen
__device__ __forceinline__ void await_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// the address of a shared variable in another block of the cluster
__device__ __forceinline__ u32 address_in(const void* own, int block) {
    u32 r;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(shared_address(own)), "r"(block));
    return r;
}

__device__ __forceinline__ float load_float(u32 address) {
    float r;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(r) : "r"(address) : "memory");
    return r;
}

__device__ __forceinline__ Quad load_quad(u32 address) {
    Quad r;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(r.at[0]), "=f"(r.at[1]), "=f"(r.at[2]), "=f"(r.at[3])
                 : "r"(address)
                 : "memory");
    return r;
}
