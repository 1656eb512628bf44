"""What NVML refused, and what to do about it."""

# What to do, by the text in which NVML refuses (NVIDIA, NVML API reference, nvmlErrorString). The first that fits.
REMEDIES = (
    ("No module named", "make setup (it installs nvidia-ml-py)"),
    (
        "version mismatch",
        "the driver's kernel module and its libraries are of two versions, as after an update: reboot; in a container, "
        "start it again",
    ),
    (
        "Library Not Found",
        "install the NVIDIA driver; in a container, start it with GPU access (docker run --gpus all) and "
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    ),
    ("Driver Not Loaded", "load the driver (modprobe nvidia); where that fails, dmesg says why"),
    ("Insufficient Permissions", "let this user open /dev/nvidia* (usually the group video or render)"),
    ("GPU is lost", "the GPU fell off its bus (dmesg shows an Xid): reboot, or ask the provider for another machine"),
    ("Unknown Error", "the container has lost its access to the GPU, or the driver hangs: start it again, else reboot"),
    ("does not know the GPU", "run nvidia-smi -L and compare; start the container again with that GPU"),
)
DEFAULT_REMEDY = "run nvidia-smi, then dmesg, for the cause"


class NvmlError(RuntimeError):
    """NVML cannot be used at all, or does not know the GPU asked for; `remedy` says what to do."""

    @property
    def remedy(self) -> str:
        """What to do, by what NVML said."""
        return next((remedy for said, remedy in REMEDIES if said.lower() in str(self).lower()), DEFAULT_REMEDY)
