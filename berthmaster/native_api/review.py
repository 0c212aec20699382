"""The native API's request that asks whether one change of a policy stays within limits, and its answer."""

from typing import Annotated, Literal

import msgspec

from berthmaster.model.policy import Policy
from berthmaster.native_api.what_if import PolicyName
from berthmaster.native_api.wire import AnswerPart, RequestPart
from berthmaster.simulation.plan_review import ReviewLimits


class PolicySet(RequestPart, frozen=True, tag="set", tag_field="type"):
    """A policy is created, or replaces a stored one."""

    policy: Policy
    creates: bool = False


class PolicyDeletion(RequestPart, frozen=True, tag="delete", tag_field="type"):
    """A policy is deleted."""

    policy: PolicyName


class ChangeReview(RequestPart, frozen=True):
    """A change of one policy to review.

    Attributes:
        limits: the limits. A large change is not planned in full if it exceeds one of them. Null to plan everything.
        accepts: whether the user accepts a plan, so that the id of the plan is needed.
        timeout_ms: the longest time to compute, in milliseconds; null for the limit of the service.
    """

    change: PolicySet | PolicyDeletion
    limits: ReviewLimits | None = None
    accepts: bool = False
    dry_run: bool = False
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=600_000)] | None = None


class ReviewedWorkload(AnswerPart, frozen=True):
    """What a change does to one workload. It names few clusters.

    Attributes:
        failure: whether it has no cluster (``nowhere``) or not all replicas (``short``) because of the change.
        leaves: some clusters that it leaves.
        reaches: some clusters that it reaches, with the replicas there.
        changes: some clusters that keep it, with the replicas before and after.
    """

    resource: str
    failure: Literal["", "nowhere", "short"] = ""
    message: str = ""
    leaves: list[str] = []
    reaches: dict[str, int] = {}
    changes: dict[str, tuple[int, int]] = {}
    more_left: int = 0
    more_reached: int = 0
    more_changed: int = 0


class ReviewAnswer(AnswerPart, frozen=True):
    """What a change moves. Without an id, the numbers are lower bounds.

    Attributes:
        id: the id of the plan, as of ``/v1/plan``; empty if the change was not planned in full.
        complete: whether everything is known that the plan depends on. Otherwise the numbers are lower bounds.
        lost: how many have no cluster afterwards, because of the change.
        short: how many keep clusters, but not all replicas, because of the change.
        assumes_preemption: whether the numbers assume that preemption is on, and depend on it.
        planning: whether the service goes on to plan the change, so that a later review gets the plan.
    """

    id: str
    complete: bool
    workloads: int
    concerned: int
    moved: int
    replicas: int
    lost: int
    short: int
    deleted_copies: int
    worst: list[ReviewedWorkload] = []
    assumes_preemption: bool = False
    gaps: list[str] = []
    planning: bool = False
