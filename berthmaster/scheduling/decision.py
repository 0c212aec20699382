"""What a decision is, as data."""

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from berthmaster.scheduling.candidates import Candidates
    from berthmaster.scheduling.columns import IntArray
    from berthmaster.scheduling.group import Group


class FailureKind(Enum):
    """At which stage a group was left, by the name that users of the batch interface see."""

    NO_FIT = "NoFit"
    """No cluster passed the filters. Karmada then removes the current assignment."""

    SELECT_FAILED = "SelectFailed"
    """The spread constraints cannot be met. The current assignment stays."""

    INSUFFICIENT = "Insufficient"
    """The selected clusters do not hold all replicas. The current assignment stays; it is tried again later."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why nothing was decided, or why a group was left."""

    kind: FailureKind
    message: str

    def __str__(self) -> str:
        return self.message


class Mode(Enum):
    """What becomes of replicas that are assigned already."""

    STEADY = "Steady"
    """They stay; only the difference is placed or taken away."""

    FRESH = "Fresh"
    """All are placed anew: a rescheduling was asked for."""


@dataclass(slots=True)
class Attempt:
    """One group's turn, with what a diagnosis needs.

    Attributes:
        group: whose turn it was.
        rows: the clusters that passed the filters, by row.
        candidates: the same with scores and capacity; None where nothing asked for these.
        selected: the candidates that selection took; None if it was not reached.
        assignment: replicas by cluster; None if it was not reached.
        failure: why the group was left; None if it won.
    """

    group: "Group"
    rows: "IntArray"
    candidates: "Candidates | None" = None
    selected: "Candidates | None" = None
    assignment: dict[str, int] | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a workload goes.

    Attributes:
        group: the name of the group that won; None without groups, or if all failed.
        assignment: replicas by cluster, 0 for a workload without replicas; empty if all groups failed.
        failure: the failure of the first group that was tried; None if one of them won.
        mode: what became of replicas that were assigned already.
        attempts: every group that was tried, in order.
    """

    group: str | None
    assignment: dict[str, int]
    failure: Failure | None
    mode: Mode
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def clears_assignment(self) -> bool:
        """Whether the current assignment has to go although there is no new one."""
        return self.failure is not None and self.failure.kind is FailureKind.NO_FIT
