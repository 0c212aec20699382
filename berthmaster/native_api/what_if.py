"""The native API's requests that ask what changes would do, and their answers: plans and reviews."""

from typing import Annotated, Final, Literal

import msgspec

from berthmaster.model.policy import Policy
from berthmaster.native_api.wire import MAX_NAMESPACES, AnswerPart, Problem, Progress, RequestPart, Staleness
from berthmaster.simulation.changes import WhatIf
from berthmaster.simulation.plan_answer import Plan, Switch
from berthmaster.simulation.plan_review import ReviewLimits

MAX_PLANNED: Final = 100
"""The most policies of each kind of change in a plan."""
MAX_CHANGES: Final = 5000
"""The most changes of clusters and replicas: a whole region of a large fleet can fail."""


class PolicyName(RequestPart, frozen=True):
    """The name of a policy. A ClusterPropagationPolicy has no namespace."""

    kind: Literal["PropagationPolicy", "ClusterPropagationPolicy"]
    name: str
    namespace: str = ""


class PlanRequest(RequestPart, frozen=True):
    """Changes of policies, clusters and replicas to plan. They take effect together, in the order of the fields.

    Attributes:
        create: policies that do not exist yet. One that exists already is replaced.
        timeout_ms: the longest time to compute, in milliseconds; absent for the limit of the service.
        changes: changes of clusters and of workloads. The latter take effect before all policies, the former after.
        namespaces: the namespaces that the reader may see, ``-`` for cluster-scoped objects; null for all. The answer
            names no workloads and policies of others, and a change means only workloads of these. Its id and its totals
            are still about all workloads.
        lazy_counts: count what may happen later, as reviews do: what Lazy policies put off, as if all templates changed
            at once, and claims of policies that do not select the template any more, as if they ended.
    """

    create: Annotated[tuple[Policy, ...], msgspec.Meta(max_length=MAX_PLANNED)] = ()
    update: Annotated[tuple[Policy, ...], msgspec.Meta(max_length=MAX_PLANNED)] = ()
    delete: Annotated[tuple[PolicyName, ...], msgspec.Meta(max_length=MAX_PLANNED)] = ()
    limit: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 1000
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=600_000)] | None = None
    changes: Annotated[tuple[WhatIf, ...], msgspec.Meta(max_length=MAX_CHANGES)] = ()
    namespaces: Annotated[frozenset[str], msgspec.Meta(max_length=MAX_NAMESPACES)] | None = None
    failover: Switch = Switch.AUTO
    preemption: Switch = Switch.AUTO
    lazy_counts: bool = False


class PlanCounts(AnswerPart, frozen=True):
    """The totals of a plan.

    Attributes:
        overcommitted: on how many clusters the replicas that arrive request more than is free.
    """

    workloads: int
    concerned: int
    moved: int
    replicas: int
    lost: int
    short: int
    deleted_copies: int
    staying: int
    overcommitted: int


class PlanAnswer(AnswerPart, frozen=True):
    """What changes of policies would move. ``plan`` is the plan, with at most ``limit`` entries in each list."""

    counts: PlanCounts
    plan: Plan
    truncated: bool
    staleness: Staleness


class PlanLine(AnswerPart, frozen=True, omit_defaults=True):
    """A line of the answer with progress. The last line has the plan, or the problem that ended it."""

    progress: Progress | None = None
    plan: PlanAnswer | None = None
    problem: Problem | None = None


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
        user: whose change it is. Each user gets an equal share of the time of reviews.
        timeout_ms: the longest time to compute, in milliseconds; null for the limit of the service.
    """

    change: PolicySet | PolicyDeletion
    limits: ReviewLimits | None = None
    accepts: bool = False
    dry_run: bool = False
    user: Annotated[str, msgspec.Meta(max_length=1_024)] = ""
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
        lazy: whether the policy is Lazy, so that workloads move when their templates change.
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
    lazy: bool = False
