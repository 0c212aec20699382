"""The fleet and its workloads as the native API lists them: what is where, as observed, without a new decision."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from enum import Enum
from typing import Annotated, Final

import msgspec

from berthmaster.model.taint import Taint
from berthmaster.native_api.wire import MAX_NAMESPACES, AnswerPart, RequestPart, Staleness

MAX_ROWS: Final = 1000
MAX_FACETS: Final = 1000
"""The most values of one facet. The most frequent ones are listed."""

_Text = Annotated[str, msgspec.Meta(max_length=512)]


class StateVersion(AnswerPart, frozen=True):
    """The version of what the service knows.

    Attributes:
        version: another text after each change of an object that the service reads. Services with the same objects
            have the same version.
        release: the version of Berthmaster; empty from a service that does not say it.
    """

    version: str
    staleness: Staleness
    release: str = ""


class FleetAmount(AnswerPart, frozen=True):
    """An amount of a resource of a cluster. CPU is in thousandths of a core, everything else in whole units.

    Attributes:
        allocatable: what the cluster can give to pods.
        used: what its pods request, as the cluster reports; null if it does not report that.
        assumed: what workloads request that are assigned to the cluster, and that it does not run yet according to
            its last report. More replicas of a workload that it runs already do not count. Null if the service does
            not watch bindings.
    """

    allocatable: int
    used: int | None
    assumed: int | None


def sum_of(amounts: Collection[FleetAmount]) -> FleetAmount:
    """Return the sum of amounts. What one cluster does not report, the sum does not count."""
    known = [each for each in amounts if each.used is not None]
    return FleetAmount(
        sum(each.allocatable for each in known),
        sum(each.used or 0 for each in known),
        sum(each.assumed or 0 for each in known),
    )


def sums_of(clusters: Iterable[Mapping[str, FleetAmount]]) -> dict[str, FleetAmount]:
    """Return the sums of the amounts of clusters, by resource."""
    found: defaultdict[str, list[FleetAmount]] = defaultdict(list)
    for amounts in clusters:
        for name, amount in amounts.items():
            found[name].append(amount)
    return {name: sum_of(each) for name, each in sorted(found.items())}


class FleetCluster(AnswerPart, frozen=True):
    """A cluster and what is assigned to it. The numbers of workloads are null if the service does not watch bindings.

    Attributes:
        name, region, provider, zones, kubernetes_version: as the cluster reports; empty if it does not.
        draining: whether it is being drained: it has the taint of Berthmaster's drains.
        by_group: how many of the workloads are in the first group of their placement, in the second, and so on.
        without_groups: how many have a placement without groups. The group of all others is not known.
        arriving: how many workloads a move brings to it.
        leaving: how many workloads a move or an eviction removes from it.
        since: since when it is not ready or being deleted; null if it is neither, or does not say it.
    """

    name: str
    region: str
    provider: str
    zones: tuple[str, ...]
    kubernetes_version: str
    ready: bool
    ready_message: str
    deleting: bool
    draining: bool
    taints: tuple[Taint, ...]
    resources: dict[str, FleetAmount]
    workloads: int | None
    replicas: int | None
    by_group: list[int] | None
    without_groups: int | None
    arriving: int | None
    leaving: int | None
    since: datetime | None = None


class FleetView(AnswerPart, frozen=True):
    """All clusters of the fleet."""

    clusters: list[FleetCluster]
    version: str
    gaps: list[str]
    staleness: Staleness


class WorkloadState(Enum):
    """What is known about the place of a workload. It follows from the stored binding, not from a new decision."""

    PLACED = "placed"
    """It is assigned to clusters, with all of its replicas."""
    NOWHERE = "nowhere"
    """It is assigned to no cluster, and its scheduler reports why, or no scheduler looks at it."""
    SHORT = "short"
    """It is assigned to clusters, with fewer replicas than desired."""
    PENDING = "pending"
    """It is assigned to no cluster, and its scheduler has not reported a decision yet."""
    SUSPENDED = "suspended"
    DELETING = "deleting"
    UNKNOWN = "unknown"
    """Its scheduler reports that it does not know."""


class Restriction(Enum):
    """A restriction of a list of workloads."""

    NOT_PREFERRED = "not-preferred"
    """Only workloads that are not in the first group of their placement."""
    STOPPED = "stopped"
    """Only workloads of which no copy runs, because the clusters of their assignment do not run copies."""
    NOWHERE = "nowhere"
    SHORT = "short"
    MOVING = "moving"
    HELD_DOWN = "held-down"
    """Only workloads that may not move for some time, after a move that failed or did not last."""
    SUSPENDED = "suspended"


class SortKey(Enum):
    """The order of a list of workloads. Values that are not known come last."""

    NAME = "name"
    NAMESPACE = "namespace"
    REPLICAS = "replicas"
    CLUSTERS = "clusters"
    GROUP = "group"
    POLICY = "policy"
    SCHEDULED = "scheduled"


class WorkloadQuery(RequestPart, frozen=True):
    """Which workloads to list. All conditions must hold.

    Attributes:
        q: words that ``NAMESPACE/KIND/NAME`` contains, in any case; empty for all.
        namespaces: the namespaces that the reader may see; null for all. ``-`` stands for cluster-scoped workloads.
        namespace: only workloads of this namespace, or ``-``; empty for all.
        label: a selector of labels of the workload, as in kubectl; empty for all.
        owner: only workloads of this owner, as the annotation of the service's option says; empty for all.
        parts: whether namespace, policy, cluster, group and owner may be parts of names, in any case.
        only: further restrictions. A workload that meets one of them is listed.
    """

    q: _Text = ""
    namespaces: Annotated[frozenset[_Text], msgspec.Meta(max_length=MAX_NAMESPACES)] | None = None
    namespace: _Text = ""
    policy: _Text = ""
    cluster: _Text = ""
    group: _Text = ""
    label: _Text = ""
    owner: _Text = ""
    parts: bool = False
    only: frozenset[Restriction] = frozenset()
    sort: SortKey = SortKey.NAMESPACE
    descending: bool = False
    offset: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_ROWS)] = 100


class WorkloadRow(AnswerPart, frozen=True):
    """A workload that has a binding.

    Attributes:
        policy: the policy that holds it, such as ``PropagationPolicy shop/web``; null if its binding names none.
        scheduler: the scheduler that decides on it; null for a binding without a placement.
        group_index: the position of the group in the placement, from 0; null if the placement has no such group.
        clusters: replicas by cluster, 0 for a workload without replicas. A dependency is where its workloads are.
        preferred: whether it is in the first group; null without groups, or if its group is not known.
        message: what its move waits for, or why its scheduler did not place it; empty without either.
        since: since when its state holds; null if nothing says that.
        stopped: whether no copy of it runs, because the clusters of its assignment do not run copies.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    binding: str
    policy: str | None
    scheduler: str | None
    group: str | None
    group_index: int | None
    groups: int
    clusters: dict[str, int]
    replicas: int
    state: WorkloadState
    preferred: bool | None
    moving: bool
    held_down: bool
    message: str
    last_scheduled_time: datetime | None
    since: datetime | None = None
    stopped: bool = False


class WorkloadFacets(AnswerPart, frozen=True):
    """How many workloads have a value, of those that all other conditions of the query accept.

    So each number says how many workloads the query matches with this value instead of the value that it asks for.

    Attributes:
        namespaces, policies, clusters, groups: by name, the most frequent values first.
    """

    namespaces: dict[str, int]
    policies: dict[str, int]
    clusters: dict[str, int]
    groups: dict[str, int]
    states: dict[str, int]
    only: dict[str, int]


class WorkloadPage(AnswerPart, frozen=True):
    """A page of workloads. ``total`` is how many workloads the reader may see."""

    items: list[WorkloadRow]
    matched: int
    total: int
    facets: WorkloadFacets
    version: str
    gaps: list[str]
    staleness: Staleness
