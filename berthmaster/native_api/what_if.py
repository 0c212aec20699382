"""The native API's requests that ask what changes would do, and their answers: simulations and plans."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from berthmaster.model.cluster import Cluster, Taint
from berthmaster.model.meta import Count
from berthmaster.model.policy import Policy
from berthmaster.native_api.wire import MAX_NAMESPACES, AnswerPart, Problem, Progress, RequestPart, Staleness
from berthmaster.simulation import changes
from berthmaster.simulation.plan_answer import ALL_OFF, Assumptions, ClusterTotal, Loss, Plan, PlanSummary, Switch
from berthmaster.simulation.plan_review import ReviewLimits
from berthmaster.simulation.plan_rows import cluster_totals
from berthmaster.simulation.planner import PlannedFleet
from berthmaster.simulation.report import ChangeRow, change_row
from berthmaster.simulation.world import Change as SimulatedChange

MAX_PLANNED: Final = 100
"""The most policies of each kind of change in a plan."""
MAX_CHANGES: Final = 5000
"""The most changes of clusters and replicas: a whole region of a large fleet can fail."""


class DownChange(RequestPart, frozen=True, tag="down", tag_field="type"):
    """A cluster fails: it becomes NotReady and is tainted with NoSchedule. What moves then depends on ``failover``."""

    cluster: str


class TaintChange(RequestPart, frozen=True, tag="taint", tag_field="type"):
    """A cluster gets a taint. Whether NoExecute evicts workloads depends on ``failover``."""

    cluster: str
    taint: Taint


class LabelChange(RequestPart, frozen=True, tag="label", tag_field="type"):
    """A cluster gets a label."""

    cluster: str
    key: str
    value: str


class ScaleChange(RequestPart, frozen=True, tag="scale", tag_field="type"):
    """A workload is scaled. Its name is ``KIND/NAME`` or ``NAMESPACE/KIND/NAME``."""

    resource: str
    replicas: Count


class RescheduleChange(RequestPart, frozen=True, tag="reschedule", tag_field="type"):
    """Every workload is scheduled from scratch, as by a WorkloadRebalancer that lists all of them."""


class UntaintChange(RequestPart, frozen=True, tag="untaint", tag_field="type"):
    """A cluster loses its taints with a key, or only the one with the effect. Evicted workloads do not return."""

    cluster: str
    key: str
    effect: str = ""


class UnlabelChange(RequestPart, frozen=True, tag="unlabel", tag_field="type"):
    """A cluster loses a label."""

    cluster: str
    key: str


class UpChange(RequestPart, frozen=True, tag="up", tag_field="type"):
    """A cluster recovers: it is ready, and the taints of a failed cluster are gone."""

    cluster: str


class AddClusterChange(RequestPart, frozen=True, tag="addCluster", tag_field="type"):
    """A cluster joins."""

    cluster: Cluster


class RemoveClusterChange(RequestPart, frozen=True, tag="removeCluster", tag_field="type"):
    """A cluster is being deleted. Its copies go first; workloads whose affinity matches it are scheduled again."""

    cluster: str


class PolicyChange(RequestPart, frozen=True, tag="policy", tag_field="type"):
    """A policy is created, or replaces the policy of the same kind, namespace and name."""

    policy: Policy


ClusterChange = UntaintChange | UnlabelChange | UpChange | AddClusterChange | RemoveClusterChange
Change = DownChange | TaintChange | LabelChange | ScaleChange | RescheduleChange | PolicyChange | ClusterChange


SIMULATED: Final[Mapping[type[Any], type[Any]]] = {
    AddClusterChange: changes.AddCluster,
    DownChange: changes.Down,
    LabelChange: changes.AddLabel,
    PolicyChange: changes.SetPolicy,
    RemoveClusterChange: changes.RemoveCluster,
    RescheduleChange: changes.Reschedule,
    ScaleChange: changes.Scale,
    TaintChange: changes.AddTaint,
    UnlabelChange: changes.RemoveLabel,
    UntaintChange: changes.RemoveTaint,
    UpChange: changes.Up,
}
"""The change of the simulation that each form stands for. The fields of a form have the same names there."""
_FORMS: Final = {change: form for form, change in SIMULATED.items()}


def wire_change(change: SimulatedChange) -> Change:
    """Return a change in the form of the extender's API. Raises ``TypeError`` if the API has no form for the change."""
    form = _FORMS.get(type(change))
    if form is None:
        raise TypeError(f"the API has no form for {type(change).__name__}")
    values = {name: getattr(change, name) for name in form.__struct_fields__}
    if isinstance(change, changes.Scale):
        values["resource"] = str(change.resource)
    found: Change = form(**values)
    return found


class SimulateRequest(RequestPart, frozen=True):
    """Changes to simulate. All changes are made in order, before anything is scheduled again.

    Attributes:
        all: return every workload, not only those that stop, move or fail.
    """

    changes: Annotated[tuple[Change, ...], msgspec.Meta(max_length=1000)]
    all: bool = False
    failover: Switch = Switch.AUTO
    preemption: Switch = Switch.AUTO


class SimulateAnswer(AnswerPart, frozen=True):
    """The effect of changes.

    Attributes:
        unplaced: the number of workloads that run nowhere or with too few replicas after the changes.
        loss: what stops running; null if no cluster is lost or deleted.
    """

    workloads: int
    moved: int
    unplaced: int
    plan: PlanSummary
    clusters: list[ClusterTotal]
    rows: list[ChangeRow]
    assumptions: Assumptions = ALL_OFF
    loss: Loss | None = None
    gaps: list[str] = []
    staleness: Staleness | None = None


def simulate_answer(fleet: PlannedFleet, *, show_all: bool, observed: bool = True) -> SimulateAnswer:
    """Return the answer about a fleet before and after changes."""
    rows = [change_row(each, fleet.hosts) for each in (fleet.workloads if show_all else fleet.concerned)]
    summary = fleet.summary
    return SimulateAnswer(
        workloads=summary.workloads,
        moved=summary.moved,
        unplaced=len(summary.nowhere) + len(summary.short),
        plan=summary,
        clusters=cluster_totals(fleet.clusters.values(), fleet.workloads, observed=observed),
        rows=[each for each in rows if show_all or each.moves or each.stops or each.left or each.after.error],
        assumptions=fleet.assumptions,
        loss=fleet.loss,
    )


class PolicyName(RequestPart, frozen=True):
    """The name of a policy. A ClusterPropagationPolicy has no namespace."""

    kind: Literal["PropagationPolicy", "ClusterPropagationPolicy"]
    name: str
    namespace: str = ""


PlannableChange = DownChange | TaintChange | LabelChange | ScaleChange | ClusterChange


class PlanRequest(RequestPart, frozen=True):
    """Changes of policies, clusters and replicas to plan. They take effect together, in the order of the fields.

    Attributes:
        create: policies that do not exist yet. One that exists already is replaced.
        timeout_ms: the longest time to compute, in milliseconds; absent for the limit of the service.
        changes: changes of clusters and of replicas. Scales take effect before all policies, the others after them.
        namespaces: the namespaces that the reader may see, ``-`` for cluster-scoped objects; null for all. The answer
            names no workloads and policies of others, and a scale means only workloads of these. Its id and its totals
            are still about all workloads.
        lazy_counts: count what may happen later, as reviews do: what Lazy policies put off, as if all templates changed
            at once, and claims of policies that do not select the template any more, as if they ended.
    """

    create: Annotated[tuple[Policy, ...], msgspec.Meta(max_length=MAX_PLANNED)] = ()
    update: Annotated[tuple[Policy, ...], msgspec.Meta(max_length=MAX_PLANNED)] = ()
    delete: Annotated[tuple[PolicyName, ...], msgspec.Meta(max_length=MAX_PLANNED)] = ()
    limit: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 1000
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=600_000)] | None = None
    changes: Annotated[tuple[PlannableChange, ...], msgspec.Meta(max_length=MAX_CHANGES)] = ()
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
