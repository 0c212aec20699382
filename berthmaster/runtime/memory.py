"""Memory of the process that the allocator keeps."""

import ctypes


def release_unused() -> None:
    """Return free memory to the system, where the C library can do so (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
