"""``berthmaster controllers`` on a machine whose clock is wrong by so many seconds, the first argument.

The command itself, options and all; only the time of day differs. The monotonic clock runs as it does.
"""

import sys
from datetime import UTC, datetime, timedelta

from berthmaster.runtime.clock import SystemClock
from berthmaster_cli.main import run

if __name__ == "__main__":
    skew = timedelta(seconds=float(sys.argv.pop(1)))
    SystemClock.now = lambda _clock: datetime.now(UTC) + skew  # type: ignore[method-assign]
    sys.argv.insert(1, "controllers")
    run()
