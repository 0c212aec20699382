"""Measure how long a call takes."""

import gc
import os
import statistics
import time
from collections.abc import Callable


def median_ms(work: Callable[[], object], rounds: int) -> float:
    """Return the median time of a call in milliseconds. One call before is not timed."""
    work()
    gc.collect()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def processor_s() -> float:
    """Return the processor time of this thread, and of the processes that this one started and that have ended."""
    times = os.times()
    return time.thread_time() + times.children_user + times.children_system
