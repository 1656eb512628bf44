"""What the kernels on Tensor Cores need of a chip."""

CAPABILITY = 80  # cp.async and mma.m16n8k16 on fp16 and bf16
CLUSTER_CAPABILITY = 90

# Shared memory that a block may ask for, KiB, by compute capability; NVIDIA, "CUDA C++ Programming Guide", technical
# specifications per compute capability. What is not listed has at least the smallest of these.
_SHARED_KIB = {80: 163, 87: 163, 90: 227, 100: 227, 103: 227}
_LEAST_SHARED_KIB = 99


def shared_limit_bytes(capability: int) -> int:
    """Shared memory that one block may have, for compute capability 9.0 given as 90."""
    return _SHARED_KIB.get(capability, _LEAST_SHARED_KIB) * 1024
