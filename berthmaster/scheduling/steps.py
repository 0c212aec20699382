"""Steps: what a decision costs, and its limit.

``Work`` counts the work of a decision in steps, and bounds it. A step is about ten nanoseconds. The engine adds the
steps of each group from sizes alone: clusters, expressions, table cells. It reads no clock, so equal input takes equal
steps on every machine, whether results are cached or not.
"""

from collections.abc import Callable
from typing import Final

from berthmaster.model.errors import InputError
from berthmaster.model.placement_limits import OPTION

UNBOUNDED: Final = 2**62
GROUP_STEPS: Final = 500
"""The steps of any group, however few clusters it has."""
CANDIDATE_STEPS: Final = 5
"""The steps of one cluster in columns: the scores, the estimate and the assigned replicas."""
PYTHON_STEPS: Final = 100
"""The steps of one call of Python code, such as one plugin for one cluster."""
AFFINITY_STEPS: Final = 1000
"""The steps of compiling one affinity."""
_ROWS_A_STEP: Final = 16
_COLUMN_STEPS: Final = 100


class TooLargeError(InputError):
    """A placement exceeds a limit, or a decision takes too many steps. It fails again until the input changes."""


class Work:
    """The steps of one request, over all its groups.

    ``check`` is called before each group. An exception that it raises, for example at a deadline, ends the decision.
    """

    __slots__ = ("_check", "limit", "steps")

    def __init__(self, limit: int = UNBOUNDED, check: Callable[[], None] | None = None) -> None:
        self.steps = 0
        self.limit = limit
        self._check = check

    def begin_group(self) -> None:
        if self._check is not None:
            self._check()
        self.spend(GROUP_STEPS)

    def spend(self, steps: int) -> None:
        """Add steps, before or after they are done. Raises ``TooLargeError`` if the limit is exceeded."""
        self.steps += steps
        if self.steps > self.limit:
            raise TooLargeError(
                f"the decision takes more than {self.limit:,} steps; use fewer groups, overflow affinities, "
                f"expressions or regions, or raise steps in {OPTION}"
            )


def column_steps(rows: int) -> int:
    """Return the steps of one operation on a column."""
    return _COLUMN_STEPS + rows // _ROWS_A_STEP
