"""A budget: how many moves may be under way at the same time, and when moves may begin.

``admissions.py`` counts the moves of each budget.
"""

from typing import Final

from berthmaster.deciding.config_values import Limit, Share
from berthmaster.deciding.move_selector import MoveSelector
from berthmaster.deciding.windows import Window, Windows
from berthmaster.model.cached import cached_property
from berthmaster.model.meta import Value


class Budget(Value, frozen=True, dict=True, gc=True):
    """Limits on moves that are under way at the same time. An absent limit is no limit.

    Attributes:
        replicas_percent: the limit of moving replicas, in percent of the replicas of all selected bindings.
        limits_failover: whether a failover waits for these limits, too. It never waits for windows.
    """

    name: str
    selector: MoveSelector = MoveSelector()
    max_moves: Limit | None = None
    max_moves_per_policy: Limit | None = None
    max_moves_per_namespace: Limit | None = None
    max_moves_from_cluster: Limit | None = None
    max_moves_to_cluster: Limit | None = None
    replicas_percent: Share | None = None
    limits_failover: bool = False
    windows: tuple[Window, ...] = ()

    @cached_property
    def openings(self) -> Windows:
        """When the budget is open."""
        return Windows(self.windows)


# One namespace never keeps the moves of all others waiting.
DEFAULT_BUDGET: Final = Budget("default", max_moves=10, max_moves_per_namespace=5)
