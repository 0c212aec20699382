"""``berthmaster extender`` that checks the API server often, with one worker.

The command itself, options and all; only the pauses and the limits of the check differ.
"""

import sys

from berthmaster.kube import informer as source_check
from berthmaster_cli.main import run

if __name__ == "__main__":
    source_check.INTERVAL_S, source_check.READ_TIMEOUT_S, source_check.UNCONFIRMED_S = 1.0, 3.0, 4.0  # type: ignore[misc]
    sys.argv[1:1] = ["extender", "--workers=1"]
    run()
