"""Measure how long a call takes, in this process."""

import gc
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
