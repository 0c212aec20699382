"""What the native API says and is told. The OpenAPI document is made from these types.

Kubernetes objects are read as leniently as an API server reads them; what is the API's own is strict: a field that it
does not know is refused, because a setting that is silently not in force is worse than one that is missing.
"""

from datetime import datetime
from typing import Annotated

import msgspec

from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster, Taint
from berthmaster.model.meta import Count
from berthmaster.model.policy import Policy
from berthmaster.model.quantity import Quantity
from berthmaster.scheduling.decision import FailureKind, Mode
from berthmaster.scheduling.diagnosis import Diagnosis
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.report import ChangeRow
from extender.protocols.problem import Problem


class Asked(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A part of a request."""


class Told(msgspec.Struct, frozen=True, rename="camel"):
    """A part of an answer."""


class ScheduleRequest(Asked, frozen=True):
    """A binding to decide on.

    Attributes:
        binding: the workload, its placement and where it is now, as a ResourceBinding or ClusterResourceBinding.
        clusters: the fleet to decide on; absent for the service's own.
    """

    binding: Binding
    clusters: tuple[Cluster, ...] | None = None


class BatchLine(ScheduleRequest, frozen=True):
    """A line of a batch: a request of its own.

    Attributes:
        id: given back with the answer.
    """

    id: str | int | None = None


class Decided(Told, frozen=True):
    """Where a binding goes.

    Attributes:
        namespace, name: the binding's.
        trigger: why Karmada would schedule it; ``None`` where it would leave it as it is. The decision is made anyway.
        mode: what became of replicas that were assigned already.
        group: the group of clusters that won; null without groups, or if all failed.
        clusters: replicas by cluster, 0 for a workload without replicas; empty if all groups failed.
        error: at which stage the first group failed; null if one of them won.
        message: the failure in words; null without one.
        clears_assignment: whether the current assignment has to go although there is no new one.
        diagnosis: group by group and cluster by cluster, if it was asked for.
    """

    namespace: str
    name: str
    trigger: Trigger
    mode: Mode
    group: str | None
    clusters: dict[str, int]
    error: FailureKind | None
    message: str | None
    clears_assignment: bool
    diagnosis: Diagnosis | msgspec.UnsetType = msgspec.UNSET


class BatchAnswer(Told, frozen=True, omit_defaults=True):
    """What came of a line: either a decision or a problem.

    Attributes:
        id: the line's.
        line: its number, from 1.
        decision: where the binding goes.
        problem: why the line was not answered; without ``line`` it ended the batch.
    """

    id: str | int | None = None
    line: int | None = None
    decision: Decided | None = None
    problem: Problem | None = None


class DownChange(Asked, frozen=True, tag="down", tag_field="type"):
    """A cluster is lost: not Ready, tainted so, and left by every workload that does not tolerate that for good."""

    cluster: str


class TaintChange(Asked, frozen=True, tag="taint", tag_field="type"):
    """A cluster is tainted; NoExecute moves workloads off that do not tolerate it for good."""

    cluster: str
    taint: Taint


class LabelChange(Asked, frozen=True, tag="label", tag_field="type"):
    """A cluster's label is set."""

    cluster: str
    key: str
    value: str


class ScaleChange(Asked, frozen=True, tag="scale", tag_field="type"):
    """A workload, named ``KIND/NAME`` or ``NAMESPACE/KIND/NAME``, is to have so many replicas."""

    resource: str
    replicas: Count


class RescheduleChange(Asked, frozen=True, tag="reschedule", tag_field="type"):
    """Every workload is scheduled anew, as by a WorkloadRebalancer that names all of them."""


class PolicyChange(Asked, frozen=True, tag="policy", tag_field="type"):
    """A policy is created, or replaces the one of its kind, namespace and name."""

    policy: Policy


Change = DownChange | TaintChange | LabelChange | ScaleChange | RescheduleChange | PolicyChange


class SimulateRequest(Asked, frozen=True):
    """Changes, made in their order and all before anything is scheduled again.

    Attributes:
        changes: what happens.
        all: answer with every workload, not only with those that move or have no place.
    """

    changes: Annotated[tuple[Change, ...], msgspec.Meta(max_length=1000)]
    all: bool = False


class SimulateAnswer(Told, frozen=True):
    """What changes would do.

    Attributes:
        workloads: how many there are.
        moved: how many of them would move.
        unplaced: how many nothing could be decided for afterwards.
        rows: workload by workload, replicas per cluster before and after.
    """

    workloads: int
    moved: int
    unplaced: int
    rows: list[ChangeRow]


class Staleness(Told, frozen=True):
    """How far the service's picture of the fleet can be trusted.

    Attributes:
        loaded_at: when a source last said how things are.
        stale_since: when that source was lost; null while all is well.
        problem: what is wrong with it; empty if nothing is.
    """

    loaded_at: datetime | None
    stale_since: datetime | None
    problem: str


class Amounts(Told, frozen=True):
    """A resource of a cluster: what it has to give, and what it has given."""

    allocatable: Quantity
    allocated: Quantity | None = None


class ClusterView(Told, frozen=True):
    """A cluster as decisions see it."""

    name: str
    ready: bool
    deleting: bool
    provider: str
    region: str
    zones: tuple[str, ...]
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    resources: dict[str, Amounts]


class ClusterList(Told, frozen=True):
    """A page of the fleet, by name.

    Attributes:
        total: how many clusters there are.
        items: those of this page.
        next: pass it as ``after`` for the next page; null on the last one.
        staleness: how far to trust it.
    """

    total: int
    items: list[ClusterView]
    next: str | None
    staleness: Staleness
