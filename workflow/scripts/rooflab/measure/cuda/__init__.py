"""What is measured on a GPU: kernels, products, memory patterns; one module imports CuPy."""
