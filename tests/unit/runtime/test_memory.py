"""Memory that the allocator returns to the system."""

import platform
import subprocess
import sys

import pytest

_PROGRAM = """
from pathlib import Path
from berthmaster.runtime.memory import return_large_blocks

def resident_kib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4

{prepare}
first = bytearray(30 * 2**20)
del first
before = resident_kib()
bodies = [bytearray(b"x" * 2**20) for _ in range(64)]
kept = bodies[-1]
del bodies
print(resident_kib() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no such option")
@pytest.mark.parametrize(
    ("prepare", "keeps_memory"),
    [
        pytest.param("", True, id="by default glibc keeps freed bodies below one that is in use"),
        pytest.param("return_large_blocks()", False, id="large blocks return to the system"),
    ],
)
def test_freed_bodies(prepare, keeps_memory):
    program = _PROGRAM.format(prepare=prepare)
    command = [sys.executable, "-c", program]
    output = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout  # noqa: S603 - this program
    assert (int(output) > 16 * 1024) is keeps_memory
