"""A change of a policy, and what it would move."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Protocol


class ReviewedChange(NamedTuple):
    """A policy that would be stored or deleted.

    Attributes:
        document: the policy as it would be stored; None if it is deleted.
    """

    kind: str
    namespace: str
    name: str
    document: Mapping[str, Any] | None
    creates: bool = False
    author: str = ""
    dry_run: bool = False
    accepts: bool = False

    @property
    def deletes(self) -> bool:
        return self.document is None

    @property
    def is_lazy(self) -> bool:
        """Whether the policy changes a binding only when its template changes."""
        spec = (self.document or {}).get("spec")
        return isinstance(spec, Mapping) and spec.get("activationPreference") == "Lazy"


class PolicyImpact(NamedTuple):
    """What a change would move.

    Attributes:
        plan: the id of the plan. The same change with the same effect has the same id. Empty if the change was not
            planned in full; the numbers are lower bounds then.
        deleted: how many copies in clusters are deleted.
        worst: what happens to single workloads, one line each, the worst first.
    """

    plan: str
    workloads: int
    concerned: int
    moved: int
    replicas: int
    lost: int
    short: int
    deleted: int
    complete: bool = True
    worst: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    planning: bool = False
    assumes_preemption: bool = False
    lazy: bool = False

    @property
    def planned(self) -> bool:
        return bool(self.plan)

    @property
    def extent(self) -> str:
        """How much of the change was planned, for metrics and the audit log."""
        if not self.planned:
            return "bounded"
        return "computed" if self.complete else "incomplete"


class Unanswered(StrEnum):
    """Why the impact of a change was not computed."""

    TIMEOUT = "timeout"
    """The service did not answer in time."""
    UNREACHABLE = "unreachable"
    NOT_READY = "not_ready"
    """The service does not know the present: it is stale, not synced, or lacks a right."""
    REFUSED = "refused"
    INVALID = "invalid"
    BREAKER = "breaker"
    """Earlier requests failed. The service is not asked for a while."""
    BUSY = "busy"
    """Too many other requests wait for an answer."""
    NO_TIME = "no_time"


class NotComputed(NamedTuple):
    """The impact is not known.

    Attributes:
        unreachable: whether the service could not judge any change: it cannot be reached, or does not know the present.
            Otherwise it did not judge this one.
    """

    kind: Unanswered
    reason: str
    unreachable: bool = False


class ImpactSource(Protocol):
    """Knows what changes would move."""

    def impact(self, change: ReviewedChange) -> PolicyImpact | NotComputed:
        """Return the impact of a change, within the time of the review. Never raises."""
