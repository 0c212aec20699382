"""No input costs more than n log n time and bytes. A share of the cases runs here; ``make cost`` runs all of them."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
PROGRAM = TESTS / "cost_growth.py"
SHARE = ("--core", "--singles", "0.002", "--pairs", "0", "--levels", "0")


def test_work_and_memory_grow_at_most_as_n_log_n():
    """A process of its own has no threads of other tests, and its garbage collector may be off."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "PYTHONHASHSEED": "0"}
    run = subprocess.run(  # noqa: S603 - our program
        [sys.executable, PROGRAM, *SHARE], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert " 0 cases" not in run.stdout
