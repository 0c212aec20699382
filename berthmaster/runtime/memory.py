"""Bounded memory of a process that runs for long."""

import ctypes
import gc
from typing import Final

_M_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 256 * 2**10
_THRESHOLDS: Final = 20_000, 2, 500
"""Net allocations between collections, and how many of these pass between larger ones: each holds up all threads.

A request or a reconcile makes a few hundred objects and frees most of them. A plan of 100,000 workloads keeps millions
until its end. With these numbers, a collection looks at 40,000 of them, and at all after 20 million.
"""


def release_unused() -> None:
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


def keep_existing_objects() -> None:
    """Leave the objects that exist now out of collections, and collect less often.

    A collection looks at every object that it has not left out. A process calls this when its modules are imported and
    its caches are filled. Reference counts still free these objects, unless they are part of a cycle.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
