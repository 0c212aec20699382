"""What an extender without a ledger does not load."""

import subprocess
import sys


def test_an_extender_without_a_ledger_imports_no_database_library():
    program = "import sys, extender.app; print('sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603 - our own program
    assert done.stdout.strip() == "False"
