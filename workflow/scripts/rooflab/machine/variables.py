"""The variables of the environment that change what is measured, each with what it does."""

# Variables that change what is measured, and how. "" and "0" count as not set.
REFUSED = {"CUDA_LAUNCH_BLOCKING": "makes every launch wait for its end"}
UNSET = {
    "CUPY_TF32": "replaces fp32 by TF32",
    "NVIDIA_TF32_OVERRIDE": "decides over fp32 and TF32 in every library",
    "CUBLAS_EMULATE_SINGLE_PRECISION": "computes fp32 in other formats",
    "CUBLAS_EMULATE_DOUBLE_PRECISION": "computes fp64 in other formats",
    "CUBLAS_EMULATION_STRATEGY": "computes fp32 and fp64 in other formats",
}
GPU_VARIABLES = {
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "leaves this process a part of the GPU",
    "CUDA_MPS_PIPE_DIRECTORY": "shares the GPU through an MPS server",
    "CUDA_INJECTION64_PATH": "loads a profiler, which slows launches down",
    "CUDA_FORCE_PTX_JIT": "has the driver compile every kernel anew",
    "CUDA_DISABLE_PERF_BOOST": "keeps the driver from raising the clocks",
    "CUPY_ACCELERATORS": "chooses other kernels in CuPy",
    "CUPY_GPU_MEMORY_LIMIT": "limits the memory of the buffers",
    "CUBLAS_WORKSPACE_CONFIG": "limits the workspace of cuBLAS, and with it the choice of algorithms",
    "CUBLAS_LOGINFO_DBG": "makes cuBLAS write a log of its calls",
    "CUBLASLT_LOG_LEVEL": "makes cuBLASLt write a log of its calls",
}
HOST_VARIABLES = {
    "LD_PRELOAD": "puts another library in front of those that are measured",
    "OPENBLAS_CORETYPE": "fixes the kernels of the CPU's BLAS",
    "MKL_ENABLE_INSTRUCTIONS": "limits the vector instructions of the CPU's BLAS",
    "MKL_DEBUG_CPU_TYPE": "changes the kernels of the CPU's BLAS",
    "NPY_DISABLE_CPU_FEATURES": "limits the vector instructions of NumPy",
    "OMP_PROC_BIND": "binds the threads of the CPU's BLAS",
    "GOMP_CPU_AFFINITY": "binds the threads of the CPU's BLAS",
    "KMP_AFFINITY": "binds the threads of the CPU's BLAS",
}
