"""Metrics of several processes: what a process leaves that has ended. The library decides when it is imported."""

import subprocess
import sys

from tables import cases

PROGRAM = """
import os, sys
from pathlib import Path
from berthmaster.runtime import metrics
folder = Path(sys.argv[1])
metrics.share(folder)
from prometheus_client import Counter, Gauge, Histogram
counter = Counter("asked", "Requests.", ["path"])
gauge = Gauge("under_way", "Requests under way.", multiprocess_mode="livesum")
histogram = Histogram("seconds", "Durations.", buckets=(1, 5))

def worker(number):
    pid = os.fork()
    if pid:
        return pid
    counter.labels("/a").inc(number)
    counter.labels(f"/{number}").inc()
    gauge.set(number)
    histogram.observe(number)
    os._exit(0)

for number in range(1, int(sys.argv[2]) + 1):
    pid = worker(number)
    os.waitpid(pid, 0)
    metrics.process_ended(pid)
    metrics.process_ended(pid)
live = worker(1)
os.waitpid(live, 0)
print(metrics.exposition()[1].decode())
print("files", len([each for each in folder.iterdir() if each.suffix == ".db" and f"_{os.getpid()}." not in each.name]))
"""


@cases("ended", {"one process": 1, "many processes": 40})
def test_counters_of_processes_that_ended_stay_and_their_files_do_not(tmp_path, ended: int):
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), str(ended)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)  # noqa: S603 - the program above
    lines = done.stdout.splitlines()
    total = ended * (ended + 1) // 2 + 1
    assert f'asked_total{{path="/a"}} {total}.0' in lines
    assert f'asked_total{{path="/{ended}"}} {2.0 if ended == 1 else 1.0}' in lines
    assert f"seconds_count {ended + 1}.0" in lines
    assert f'seconds_bucket{{le="5.0"}} {min(ended, 5) + 1}.0' in lines
    assert "under_way 1.0" in lines, "gauges are of processes that run"
    assert "files 5" in lines, "two of those that ended, three of the one that runs"
