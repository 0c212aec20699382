"""The result of scheduling, as data."""

from dataclasses import dataclass, field
from enum import Enum

from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.compiled_placement import Group
from berthmaster.scheduling.context import Candidates


class FailureKind(Enum):
    """The stage at which a group failed, under the name that the batch interface shows."""

    NO_FIT = "NoFit"
    """No cluster passed the filters. Karmada then removes the current assignment."""
    SELECT_FAILED = "SelectFailed"
    """The spread constraints cannot be satisfied. The current assignment stays."""
    INSUFFICIENT = "Insufficient"
    """The selected clusters do not hold all replicas. The current assignment stays, and scheduling is retried."""
    TOO_LARGE = "TooLarge"
    """The placement exceeds a limit. The current assignment stays, and only a change of the input helps."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a group failed, or why there is no assignment."""

    kind: FailureKind
    message: str

    def __str__(self) -> str:
        return self.message


class Mode(Enum):
    """How a decision treats replicas that are already assigned."""

    STEADY = "Steady"
    """They stay. Only the difference is added or removed."""
    FRESH = "Fresh"
    """All replicas are assigned again, because the request asks for a rescheduling."""


@dataclass(slots=True)
class Attempt:
    """One group that was tried, with what a diagnosis needs.

    Attributes:
        rows: the rows of the clusters that passed the filters.
        candidates: the same clusters with scores and available replicas. None if scoring was not reached or failed.
        assignment: replicas by cluster. None if assignment was not reached or failed.
    """

    group: Group
    rows: IntArray
    candidates: Candidates | None = None
    selected: Candidates | None = None
    assignment: dict[str, int] | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a workload goes.

    Attributes:
        group: the name of the group that won. None without groups, or if all groups failed.
        assignment: replicas by cluster, 0 for a workload without replicas. Empty if all groups failed.
        failure: the failure of the first group that was tried. None if a group won.
        mode: how replicas that were already assigned were treated.
    """

    group: str | None
    assignment: dict[str, int]
    failure: Failure | None
    mode: Mode
    attempts: list[Attempt] = field(default_factory=list)

    def release(self) -> None:
        """Drop the candidates of all attempts, which can be all clusters. No diagnosis is possible afterwards."""
        for each in self.attempts:
            each.candidates = each.selected = None

    @property
    def clears_assignment(self) -> bool:
        """Return whether the current assignment must be removed although there is no new one."""
        return self.failure is not None and self.failure.kind is FailureKind.NO_FIT
