"""Memory of the process that the allocator keeps."""

import ctypes
from typing import Final

_M_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 256 * 2**10


def release_unused() -> None:
    """Return free memory to the system, where the C library can do so (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def return_large_blocks() -> None:
    """Let each large block return to the system when it is freed, where the C library can do so (glibc).

    glibc raises its limit for such blocks with the first large request, up to 32 MiB. Later bodies then lie between
    small objects of several heaps, which keep the memory. Source: mallopt(3), M_MMAP_THRESHOLD.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, _LARGE_BYTES)
