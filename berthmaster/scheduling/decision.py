"""The decision on one workload: its attempts, and why groups failed."""

from enum import Enum

import msgspec

from berthmaster.scheduling.candidates import _NO_ROWS, Candidates
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.compiled_placement import Group


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


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a group failed, or why there is no assignment.

    ``upstream``: the error of karmada-scheduler for it, with which conditions and events begin; empty for none.
    """

    kind: FailureKind
    message: str
    upstream: str = ""

    def __str__(self) -> str:
        return self.message


class Mode(Enum):
    """How a decision treats replicas that are already assigned."""

    STEADY = "Steady"
    """They stay. Only the difference is added or removed."""
    FRESH = "Fresh"
    """All replicas are assigned again, because the request asks for a rescheduling."""


class Attempt(msgspec.Struct):
    """One group that was tried, with what a diagnosis needs.

    Attributes:
        candidates: the same clusters with scores and available replicas. None if scoring was not reached or failed.
        assignment: replicas by cluster. None if assignment was not reached or failed.
    """

    group: Group
    rows: IntArray
    candidates: Candidates | None = None
    selected: Candidates | None = None
    assignment: dict[str, int] | None = None
    failure: Failure | None = None


class Decision(msgspec.Struct, frozen=True):
    """Where a workload goes.

    Attributes:
        group: the name of the group that won. None without groups, or if all groups failed.
        assignment: replicas by cluster, 0 for a workload without replicas. Empty if all groups failed.
        failure: the failure of the first group that was tried. None if a group won.
    """

    group: str | None
    assignment: dict[str, int]
    failure: Failure | None
    mode: Mode
    attempts: list[Attempt] = []

    def release(self, *, keeps_rows: bool = False) -> None:
        """Drop the candidates of all attempts, which can be all clusters. No diagnosis is possible afterwards.

        ``keeps_rows``: whether the rows of the clusters that fit are kept.
        """
        for each in self.attempts:
            each.candidates = each.selected = None
            if not keeps_rows:
                each.rows = _NO_ROWS

    @property
    def clears_assignment(self) -> bool:
        """Return whether the current assignment must be removed although there is no new one."""
        return self.failure is not None and self.failure.kind is FailureKind.NO_FIT
