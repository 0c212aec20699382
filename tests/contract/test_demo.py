"""`berthmaster demo`: both services as processes, with requests over TLS."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The folder for temporary files of the demo, which the command lines of its processes name."""
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def output(folder) -> str:
    command = [sys.executable, "-m", "berthmaster_cli.main", "demo"]
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run(  # noqa: S603 - our own command
        command, capture_output=True, text=True, timeout=120, cwd=ROOT, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("add /spec/priority 0", id="the webhook adds defaults"),
        pytest.param("allowed: false", id="the webhook denies an invalid policy"),
        pytest.param("warning: spec.priority falls from 10 to 3", id="the webhook warns about a priority drop"),
        pytest.param('{\\"from\\": 10, \\"to\\": 3}', id="the webhook records a priority drop"),
        pytest.param('group cloud, clusters {"cloud-1": 12}', id="the native API chooses the second group"),
        pytest.param('filter: {"selected": true, "error": ""}', id="KubeAdmiral's filter accepts a cluster of a group"),
        pytest.param('score: {"score": 1, "error": ""}', id="KubeAdmiral's score ranks groups"),
        pytest.param("kept: cloud-1, cloud-2", id="kube-scheduler's filter keeps the second group"),
        pytest.param("dc-1: node(s) rejected", id="kube-scheduler's filter explains a rejected node"),
    ],
)
def test_the_demo_shows(output, line):
    assert line in output


@pytest.mark.usefixtures("output")
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked up in /proc")
def test_no_process_is_left_running(folder):
    assert not [line for line in command_lines() if bytes(folder) in line]


def command_lines() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # the process has ended
            yield path.read_bytes()
