"""`berthmaster demo`: both services as processes of their own, asked over TLS."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def told() -> str:
    command = [sys.executable, "-m", "berthmaster_cli.main", "demo"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT, check=False)  # noqa: S603 - ours
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("add /spec/priority 0", id="the webhook completes a policy"),
        pytest.param("allowed: false", id="the webhook refuses one that contradicts itself"),
        pytest.param('{\\"from\\": 10, \\"to\\": 3}', id="the webhook records a priority drop"),
        pytest.param('group cloud, clusters {"cloud-1": 12}', id="the native API walks to the second group"),
        pytest.param('filter: {"selected": true, "error": ""}', id="KubeAdmiral's filter passes a cluster of a group"),
        pytest.param('score: {"score": 1, "error": ""}', id="KubeAdmiral's score ranks groups"),
        pytest.param("kept: cloud-1, cloud-2", id="kube-scheduler's filter keeps the second group"),
        pytest.param("dc-1: node(s) rejected", id="kube-scheduler's filter says why another is out"),
    ],
)
def test_what_the_demo_shows(told, line):
    assert line in told


@pytest.mark.usefixtures("told")
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked up in /proc")
def test_nothing_is_left_running():
    assert not [line for line in command_lines() if b"berthmaster-demo-" in line]


def command_lines() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended meanwhile
            yield path.read_bytes()
