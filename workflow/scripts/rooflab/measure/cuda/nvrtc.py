"""The project's kernels as source text, and the compiler options they are specialised with. They have no `#include`, so
that they compile without CUDA headers.
"""

from pathlib import Path

FOLDER = Path(__file__).parent / "kernels"

# A kernel is its files in this order: one after the other they are one source.
KERNELS = {
    "bandwidth": ("bandwidth.cu",),
    "fma": ("fma.cu",),
    "stamp": ("stamp.cu",),
    "norms": ("halves.cu", "norms.cu"),
    "latent": ("halves.cu", "latent_instructions.cu", "latent.cu"),
    "latent_staged": ("tensor.cu", "cluster.cu", "latent_staged_tiles.cu", "latent_staged.cu"),
    "decode": ("decode_formats.cu", "decode_rows.cu", "decode_merge.cu", "decode.cu"),
    "grouped": ("tensor.cu", "cluster.cu", "grouped_tiles.cu", "grouped_merge.cu", "grouped.cu"),
}


def kernel_source(name: str) -> str:
    """The source of the kernel called `name`, one of KERNELS. Raises KeyError for any other name."""
    return "\n".join((FOLDER / file).read_text(encoding="utf-8") for file in KERNELS[name])


def define_options(defines: dict[str, int]) -> tuple[str, ...]:
    """Compiler options for the language and the numbers a kernel is specialised with."""
    return ("-std=c++17", *(f"-D{name}={value}" for name, value in defines.items()))
