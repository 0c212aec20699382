"""The bases of the native API's requests and answers, and the types of schedules, bindings, clusters and history.

The OpenAPI document is made from these types.

Kubernetes objects are decoded as leniently as by an API server. The types of the API itself reject unknown fields: a
setting that is silently ignored is worse than an error.
"""

from datetime import datetime
from typing import Annotated, Final, NamedTuple

import msgspec

from berthmaster.ledger.records import HistoryRow
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster, Condition
from berthmaster.model.meta import Timestamp
from berthmaster.model.quantity import Quantity
from berthmaster.model.taint import Taint
from berthmaster.scheduling.decision import FailureKind, Mode
from berthmaster.scheduling.diagnosis import Diagnosis
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.report import Explanation

ABOUT_BLANK: Final = "about:blank"
NOT_READY: Final = "urn:berthmaster:not-ready"
"""The type of a problem that does not depend on the request: the service does not know the present."""
MAX_NAMESPACES: Final = 10_000


class InvalidField(msgspec.Struct, frozen=True):
    """An invalid value of the request.

    Attributes:
        path: the field, as in ``binding.spec.replicas``; empty for the body itself.
    """

    path: str
    detail: str


class Progress(msgspec.Struct, frozen=True, rename="camel"):
    """How far the computation is that a request waits for.

    Attributes:
        about: what is computed.
        total: the number of its parts; 0 if it is not known yet.
        first: whether it answers another question, and this question is next.
    """

    about: str
    begun_at: Timestamp
    done: int = 0
    total: int = 0
    first: bool = False


class Problem(msgspec.Struct, frozen=True, rename="camel"):
    """Why a request failed. ``type`` is a URI for the kind of problem; ``about:blank`` if the status is enough."""

    title: str
    status: int
    detail: str
    request_id: str = ""
    errors: list[InvalidField] = []
    type: str = ABOUT_BLANK
    progress: Progress | msgspec.UnsetType = msgspec.UNSET


class RequestPart(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The base of the parts of requests."""


class ReaderRequest(RequestPart, frozen=True):
    """The reader of an answer, if the namespaces are too many for a request line.

    Attributes:
        namespaces: the namespaces that the reader may see, ``-`` for objects without one.
    """

    namespaces: Annotated[frozenset[str], msgspec.Meta(max_length=MAX_NAMESPACES)]


class AnswerPart(msgspec.Struct, frozen=True, rename="camel"):
    """The base of the parts of answers.

    Some fields mean the same in each answer. ``version`` is the version of the state that the answer is about, as
    ``GET /v1/version`` gives it. ``gaps`` says what the service does not know and what follows, one sentence each.
    ``staleness`` says how current the state is.
    """


class Staleness(AnswerPart, frozen=True):
    """How current the fleet of the service is.

    Attributes:
        loaded_at: the last update from the source.
        stale_since: when the source failed; null while it works.
    """

    loaded_at: datetime | None
    stale_since: datetime | None
    problem: str

    @property
    def synced(self) -> bool:
        return self.loaded_at is not None


class ScheduleRequest(RequestPart, frozen=True):
    """A binding to schedule.

    Attributes:
        binding: the workload, its placement and its current assignment, as a ResourceBinding or ClusterResourceBinding.
        clusters: the fleet; absent for the fleet of the service.
    """

    binding: Binding
    clusters: tuple[Cluster, ...] | None = None


class Decided(AnswerPart, frozen=True):
    """The decision on a binding.

    Attributes:
        trigger: why Karmada would schedule the binding; ``None`` if it would not. The decision is made in any case.
        group: the selected group of clusters; null without groups, or if all failed.
        clusters: replicas by cluster, 0 for a workload without replicas; empty if all groups failed.
        error: the stage at which the first group failed; null if a group was selected.
        clears_assignment: whether the current assignment must be removed although there is no new one.
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


class BindingExplanation(Explanation, frozen=True, rename="camel"):
    """The explanation of the decision on a binding, as the service knows it."""

    gaps: list[str] = []
    staleness: Staleness | None = None

    @property
    def explanation(self) -> Explanation:
        """The explanation alone, as the command prints it."""
        return Explanation(**{name: getattr(self, name) for name in Explanation.__struct_fields__})


class ResourceView(AnswerPart, frozen=True):
    """The resource of a binding. ``namespace`` is empty for a cluster-scoped one."""

    api_version: str
    kind: str
    namespace: str
    name: str


class EvictionTaskView(AnswerPart, frozen=True):
    """An eviction task of a binding. The copy stays until the task is removed, unless the purge mode is Directly."""

    from_cluster: str
    producer: str
    reason: str
    message: str
    purge_mode: str
    grace_period_seconds: int | None
    suppress_deletion: bool | None
    creation_timestamp: datetime | None


class RequiringBinding(AnswerPart, frozen=True):
    """A binding that depends on this one. This one follows it to its clusters."""

    namespace: str
    name: str
    clusters: dict[str, int]


class BindingView(AnswerPart, frozen=True):
    """A binding, with the fields that decisions use. What the members report is not part of it.

    Attributes:
        kind, namespace, name: those of the binding. A ClusterResourceBinding has no namespace.
        present: whether the control plane has the binding. One from a folder of manifests may only be due.
        policy: the policy that holds the workload; null if there is none or it is not known.
        observed_group: the group of the assignment; null without one, and if it is not known.
        required_by: the bindings that it follows as a dependency.
        requests: what one replica requests, by resource; empty if that is not known.
        waits_for_deletion: the clusters whose copy Karmada deletes before it writes any new one: those that are evicted
            with the purge mode Directly, as long as they have a copy.
    """

    kind: str
    namespace: str
    name: str
    present: bool
    deleting: bool
    resource: ResourceView
    policy: str | None
    scheduler: str | None
    suspended: bool
    replicas: int
    groups: list[str] | None
    observed_group: str | None
    clusters: dict[str, int]
    eviction_tasks: list[EvictionTaskView]
    required_by: list[RequiringBinding]
    conditions: list[Condition]
    last_scheduled_time: datetime | None
    notes: list[str]
    gaps: list[str]
    staleness: Staleness
    requests: dict[str, Quantity] = {}
    waits_for_deletion: list[str] = []


class Amounts(AnswerPart, frozen=True):
    """A resource of a cluster: the allocatable and the allocated amount."""

    allocatable: Quantity
    allocated: Quantity | None = None


class ClusterView(AnswerPart, frozen=True):
    """A cluster, with the fields that decisions use."""

    name: str
    ready: bool
    deleting: bool
    provider: str
    region: str
    zones: tuple[str, ...]
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    resources: dict[str, Amounts]


class HistoryQuery(NamedTuple):
    """Which records to list. An empty value selects everything.

    Attributes:
        trigger: only decisions with this trigger, or records of this kind.
        user: only changes that this user made, as the API server names users.
        moves: only decisions that change an assignment or evict from a cluster.
        after: ``next`` of the page before.
        limit: the most records. A page can have fewer.
        namespaces: the namespaces that the reader may see, ``-`` for cluster-scoped objects; None for all.
    """

    namespace: str = ""
    kind: str = ""
    name: str = ""
    cluster: str = ""
    policy: str = ""
    trigger: str = ""
    user: str = ""
    since: datetime | None = None
    until: datetime | None = None
    moves: bool = False
    after: str = ""
    limit: int = 50
    namespaces: frozenset[str] | None = None


class HistoryPage(AnswerPart, frozen=True):
    """A page of the ledger, the latest record first.

    Attributes:
        next: the value of ``after`` for the next page; null on the last page.
    """

    items: list[HistoryRow]
    next: str | None


class ClusterList(AnswerPart, frozen=True):
    """A page of the fleet, sorted by name."""

    total: int
    items: list[ClusterView]
    next: str | None
    staleness: Staleness
