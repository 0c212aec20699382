"""``make console`` says what it does while it prepares, and Ctrl-C is no error."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from e2e.console.services import Console

DEMO = Path(__file__).parents[2] / "console_demo.py"
STEPS = ("Generating a fleet", "Deciding on some", "Starting the extender", "Starting the console", "The console is at")


def test_the_demonstration_says_its_steps_and_ends_with_ctrl_c(console: Console):
    port = console.free_port()
    command = [sys.executable, str(DEMO), "--clusters=16", "--workloads=100", f"--port={port}"]
    # A shell ignores the signal for what runs in the background, and a child would inherit that.
    handled = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0)
    finally:
        signal.signal(signal.SIGINT, handled)
    with started as demo:
        assert demo.stdout is not None
        said = []
        for line in demo.stdout:
            said.append(line)
            if STEPS[-1] in line:
                break
        try:
            os.killpg(demo.pid, signal.SIGINT)
            assert demo.wait(60) == 0
        finally:
            if demo.poll() is None:
                os.killpg(demo.pid, signal.SIGKILL)
    text = "".join(said)
    assert sorted(STEPS, key=text.index) == list(STEPS)
