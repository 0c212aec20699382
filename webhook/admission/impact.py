"""A change of a policy, what it would move, and what the gate did with it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Protocol


class ReviewedChange(NamedTuple):
    """A policy that would be stored or deleted.

    Attributes:
        kind: ``PropagationPolicy`` or ``ClusterPropagationPolicy``.
        namespace: the namespace; empty for a ClusterPropagationPolicy.
        document: the policy as it would be stored; None if it is deleted.
        creates: whether the policy does not exist yet.
        author: the user who sent the change.
        dry_run: whether nothing would be stored.
        accepts: whether the user accepts a plan, so that its id must be computed.
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


class PolicyImpact(NamedTuple):
    """What a change would move.

    Attributes:
        plan: the id of the plan. The same change with the same effect has the same id. Empty if the change was not
            planned in full; the numbers are lower bounds then.
        concerned: how many of them the change concerns.
        lost: how many workloads have no cluster afterwards, because of the change.
        short: how many workloads keep clusters, but not all replicas, because of the change.
        deleted: how many copies in clusters are deleted.
        complete: whether everything is known that the answer depends on. If not, more may move.
        worst: what happens to single workloads, one line each, the worst first.
        gaps: what is not known and what follows, one sentence each.
        planning: whether the service goes on to plan the change, so that the next review of it knows the plan.
        assumes_preemption: whether the numbers assume that preemption is on, and depend on it.
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

    @property
    def planned(self) -> bool:
        """Whether the change was planned in full."""
        return bool(self.plan)


class Unanswered(StrEnum):
    """Why the impact of a change was not computed."""

    TIMEOUT = "timeout"
    """The service did not answer in time."""
    UNREACHABLE = "unreachable"
    """The service could not be reached."""
    NOT_READY = "not_ready"
    """The service does not know the present: it is stale, not synced, or lacks a right."""
    REFUSED = "refused"
    """The service refused the request."""
    INVALID = "invalid"
    """The answer could not be read."""
    BREAKER = "breaker"
    """Earlier requests failed. The service is not asked for a while."""
    BUSY = "busy"
    """Too many other requests wait for an answer."""
    NO_TIME = "no_time"
    """The review has no time left."""


class NotComputed(NamedTuple):
    """The impact is not known.

    Attributes:
        kind: why, for metrics.
        reason: why, in words.
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


class GateResult(StrEnum):
    """What the gate did with a change."""

    WITHIN = "within"
    """The change is within the limits."""
    WARNED = "warned"
    """It is above a limit, and the gate only warns."""
    ACCEPTED = "accepted"
    """It is above a limit, and the user accepted this plan."""
    EXEMPT = "exempt"
    """It is above a limit, and the user is exempt."""
    REFUSED = "refused"
    """It is above a limit."""
    UNKNOWN = "unknown"
    """The impact is not known. The gate lets the change pass."""
    UNJUDGED = "unjudged"
    """The impact is not known. The gate refuses the change."""


class GateDecision(NamedTuple):
    """The decision on one change.

    Attributes:
        plan: the id of the plan; empty if the impact is not known.
        message: why, in words; empty if the change is within the limits.
    """

    result: GateResult
    change: ReviewedChange
    plan: str = ""
    message: str = ""
