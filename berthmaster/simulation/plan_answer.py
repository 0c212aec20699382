"""The plan of a change as a value, and what an answer assumes about the switches of a control plane.

Karmada moves nothing off a lost cluster by default. Since 1.14 it only taints the cluster with NoSchedule. Workloads
are evicted if three things hold: the feature gate ``Failover`` is on, ``--enable-no-execute-taint-eviction`` is given
(both to karmada-controller-manager, both off by default), and the cluster has a NoExecute taint, which a person or a
ClusterTaintPolicy adds. Berthmaster's controllers replace lost clusters with ``--failover=not-ready`` only.
"""

from collections.abc import Iterable
from enum import Enum, StrEnum
from typing import Final

import msgspec
import msgspec.structs

from berthmaster.deciding.lease_record import ControllersRecord
from berthmaster.deciding.rules import OWN
from berthmaster.deciding.running import NotRunning
from berthmaster.deciding.storm_brake import DEFAULT_BRAKE, BrakeLimits
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster, Condition
from berthmaster.model.meta import with_status
from berthmaster.model.taint import NO_EXECUTE
from berthmaster.model.taint_policy import ClusterTaintPolicy
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.prices import CostChange

TAINT_MANAGER: Final = "TaintManager"
"""The producer of the eviction tasks that Karmada's taint manager writes."""


class Switch(StrEnum):
    """How an option sets an assumption."""

    AUTO = "auto"
    """As the control plane is configured, as far as that is known. What is not known counts as off."""
    ON = "on"
    OFF = "off"


class Basis(StrEnum):
    """What an assumption follows from."""

    ASKED = "Asked"
    DEFAULT = "Default"
    """Nothing says that the switch is on, and it is off by default."""
    RECORDED = "Recorded"
    """The running controllers of Berthmaster record it on their Lease."""
    TASKS = "Tasks"
    """A binding has an eviction task of Karmada's taint manager."""
    BRAKED = "Braked"
    """The controllers record failover, and their storm brake holds it."""
    BRAKES = "Brakes"
    """The controllers record failover, and the loss itself engages their storm brake."""


class Assumptions(msgspec.Struct, frozen=True, rename="camel"):
    """The switches that an answer assumes.

    Attributes:
        evicts: whether Karmada's taint manager evicts workloads that do not tolerate the NoExecute taints of a cluster.
        taints_lost: whether a cluster that is lost gets a NoExecute taint.
        tainted_by: the ClusterTaintPolicies that give a cluster that is not ready a NoExecute taint.
        scheduler: the ``spec.schedulerName`` of the bindings that Berthmaster's controllers schedule.
        replaces: the ``spec.schedulerName`` of the bindings whose lost clusters Berthmaster replaces; empty for none.
    """

    failover: Switch = Switch.AUTO
    evicts: bool = False
    taints_lost: bool = False
    tainted_by: tuple[str, ...] = ()
    scheduler: str = OWN
    replaces: str = ""
    replaced_after_s: float = 0.0
    failover_basis: Basis = Basis.DEFAULT
    preemption: Switch = Switch.AUTO
    preempts: bool = False
    preemption_basis: Basis = Basis.DEFAULT
    brake: BrakeLimits = DEFAULT_BRAKE

    def after_loss(self, lost: int, ready: int) -> "Assumptions":
        """Return what holds after a loss of several clusters at once, which can engage the storm brake."""
        if not self.replaces or not self.brake.exceeded(lost, ready):
            return self
        return msgspec.structs.replace(self, replaces="", replaced_after_s=0.0, failover_basis=Basis.BRAKES)

    @property
    def moves_off_lost(self) -> bool:
        """Whether anything moves off a cluster that is lost and has no NoExecute taint before."""
        return self.taints_lost or bool(self.replaces) or self.evicts_by_policy

    @property
    def evicts_by_policy(self) -> bool:
        """Whether Karmada evicts because of a ClusterTaintPolicy."""
        return self.evicts and not self.taints_lost and bool(self.tainted_by)


ALL_OFF: Final = Assumptions()


def assumptions(
    failover: Switch,
    preemption: Switch,
    controllers: ControllersRecord | None,
    bindings: Iterable[Binding],
    *,
    braked: bool = False,
    brake: BrakeLimits = DEFAULT_BRAKE,
    tainted_by: tuple[str, ...] = (),
    scheduler: str = "",
) -> Assumptions:
    """Return what an answer assumes.

    Args:
        controllers: what the running controllers record; None if none run, or if that is not known.
        bindings: the bindings of the control plane. Their eviction tasks say whether Karmada evicts.
        scheduler: the name that the last controllers served, also if none run now; empty if that is not known.
    """
    recorded = controllers is not None and controllers.preempts
    asked, basis = preemption is not Switch.AUTO, Basis.RECORDED if recorded else Basis.DEFAULT
    found = Assumptions(
        failover,
        tainted_by=tainted_by,
        scheduler=scheduler or (controllers.scheduler if controllers is not None else "") or OWN,
        preemption=preemption,
        preempts=preemption is Switch.ON if asked else recorded,
        preemption_basis=Basis.ASKED if asked else basis,
        brake=brake,
    )
    if failover is Switch.AUTO:
        return _as_configured(found, controllers, bindings, braked=braked)
    on = failover is Switch.ON
    return msgspec.structs.replace(found, evicts=on, taints_lost=on, failover_basis=Basis.ASKED)


def _as_configured(
    found: Assumptions, controllers: ControllersRecord | None, bindings: Iterable[Binding], *, braked: bool
) -> Assumptions:
    tasks = (task for each in bindings for task in each.spec.graceful_eviction_tasks)
    evicts = any(task.producer == TAINT_MANAGER for task in tasks)
    if controllers is None or controllers.failover_after_s is None:
        basis = Basis.TASKS if evicts else Basis.DEFAULT
        return msgspec.structs.replace(found, evicts=evicts, failover_basis=basis)
    if braked:
        return msgspec.structs.replace(found, evicts=evicts, failover_basis=Basis.BRAKED)
    return msgspec.structs.replace(
        found,
        evicts=evicts,
        replaces=controllers.scheduler,
        replaced_after_s=controllers.failover_after_s,
        failover_basis=Basis.RECORDED,
    )


def not_ready(cluster: Cluster) -> Cluster:
    """Return a cluster that has failed, before any taint.

    Karmada does not reach a cluster in push mode, and hears no more of one in pull mode.
    """
    pulls = cluster.spec.sync_mode == "Pull"
    status, reason = ("Unknown", "ClusterStatusUnknown") if pulls else ("False", "ClusterNotReachable")
    return with_readiness(cluster, status, reason, "taken down by the simulation")


def with_readiness(cluster: Cluster, status: str, reason: str, message: str) -> Cluster:
    """Return a cluster with another condition ``Ready``."""
    others = (each for each in cluster.status.conditions if each.type != "Ready")
    return with_status(cluster, conditions=(*others, Condition("Ready", status, reason, message)))


def evicting_policies(policies: Iterable[ClusterTaintPolicy], clusters: Iterable[Cluster]) -> tuple[str, ...]:
    """Return the names of the policies that give one of the clusters a NoExecute taint when it fails."""
    chosen = [each for each in policies if any(taint.effect == NO_EXECUTE for taint in each.spec.taints)]
    failed = [not_ready(each) for each in clusters] if chosen else []

    def evicts(policy: ClusterTaintPolicy, cluster: Cluster) -> bool:
        return any(
            each.effect == NO_EXECUTE and each in policy.spec.taints for each in policy.tainted(cluster).spec.taints
        )

    return tuple(each.metadata.name for each in chosen if any(evicts(each, cluster) for cluster in failed))


class PlanSummary(msgspec.Struct, frozen=True, rename="camel"):
    """What changes would move in total.

    Attributes:
        replicas: the replicas that move: of each workload those that arrive or those that leave, whichever are more.
        short: those that cannot be scheduled or have too few replicas, and run somewhere.
        new_failures: those of the last two that are so because of the changes.
        keeping: those of ``short`` that keep all their replicas where they are.
        due: how many of the workloads that move would move in the same way without the changes.
        cost: what all these moves cost; null if no cluster has a price.
    """

    workloads: int
    moved: int
    replicas: int
    nowhere: list[str]
    short: list[str]
    new_failures: list[str]
    due: int = 0
    cost: CostChange | None = None
    keeping: list[str] = []


class ResourceTotal(msgspec.Struct, frozen=True, rename="camel"):
    """A resource of a cluster, in millicores of CPU or bytes of memory.

    Attributes:
        requested: what the replicas request that the cluster does not run now; of all replicas if that is not known.
        available: what is free by the status of the cluster, negative if it is overcommitted already; None if unknown.
    """

    requested: int
    available: int | None

    @property
    def overcommitted(self) -> bool:
        """Whether more is requested than is available."""
        return self.requested > 0 and self.available is not None and self.requested > self.available


class ClusterTotal(msgspec.Struct, frozen=True, rename="camel"):
    """A cluster before and after changes.

    ``arriving``: the replicas that the cluster does not run now; None if it is not known what clusters run.
    """

    cluster: str
    before: int
    after: int
    arriving: int | None
    resources: dict[str, ResourceTotal]
    overcommitted: list[str]


class StayReason(Enum):
    """Why a workload that a change concerns does not move."""

    LAZY = "Lazy"
    """Its policy is Lazy: the change counts when the template changes."""
    OTHER_GROUP = "OtherGroup"
    """The change concerns groups of the placement that the assignment does not come from."""
    SAME_RESULT = "SameResult"
    """It is scheduled again, with the same result."""
    NOT_TRIGGERED = "NotTriggered"
    """Its binding changes, but in no field that makes a scheduler look at it."""
    UNCHANGED = "Unchanged"
    NOT_SCHEDULED = "NotScheduled"
    """No scheduler looks at it; the message says why."""
    WAITS = "Waits"
    """Its policy waits for objects that do not exist: the change counts when they do."""
    HELD = "Held"
    """The changed policy selects it now, but another policy holds it, and keeps it."""
    FAILED = "Failed"
    DUE = "Due"
    """It moves at its next scheduling in any case, and the change does not concern it."""


class ClaimChange(msgspec.Struct, frozen=True, rename="camel"):
    """A resource that another policy holds after the change."""

    resource: str
    before: str | None
    after: str | None


class PolicyEffect(msgspec.Struct, frozen=True, rename="camel"):
    """What the change of one policy does to claims.

    Attributes:
        action: ``created``, ``updated``, ``deleted`` or ``unchanged``.
        keeps: how many resources it holds before and after.
        gains: the resources that it holds afterwards, except for ``takes``.
        unclaimed: the resources that no policy holds afterwards. Bindings and copies stay, and nothing moves them.
    """

    policy: str
    action: str
    keeps: int = 0
    gains: list[ClaimChange] = []
    takes: list[ClaimChange] = []
    loses: list[ClaimChange] = []
    unclaimed: list[ClaimChange] = []


class PlannedMove(msgspec.Struct, frozen=True, rename="camel"):
    """A workload that moves.

    Attributes:
        moves: the replicas before and after for each cluster that changes; None for a cluster without the workload.
        preserved: the clusters that keep their copy although the workload leaves (``preserveResourcesOnDeletion``).
        evicting: the clusters that the workload leaves by an eviction task: Karmada deletes the copy later.
        trigger: why it is scheduled; NONE for a dependency, which follows other workloads.
        due: whether it would move in the same way without the change, at its next scheduling.
        not_running: the clusters that get replicas which do not run there, and why not.
        notes: what else a reader must know, one sentence each.
    """

    resource: str
    policy_before: str | None
    policy: str | None
    group_before: str | None
    group: str | None
    before: dict[str, int]
    after: dict[str, int]
    moves: dict[str, tuple[int | None, int | None]]
    replicas: int
    deleted: list[str]
    preserved: list[str]
    evicting: list[str]
    trigger: Trigger
    reason: str
    due: bool = False
    removed: bool = False
    not_running: dict[str, NotRunning] = {}
    notes: list[str] = []


class UnplacedWorkload(msgspec.Struct, frozen=True, rename="camel"):
    """A workload that cannot be scheduled after the change.

    Attributes:
        nowhere: whether it has no cluster at all.
        keeps: whether it keeps its clusters with all replicas. Otherwise it has too few.
    """

    resource: str
    policy: str | None
    nowhere: bool
    by_change: bool
    message: str
    keeps: bool = False


class StayingWorkload(msgspec.Struct, frozen=True, rename="camel"):
    """A workload that does not move because of a change. ``notes``: what else a reader must know, one sentence each."""

    resource: str
    policy: str | None
    reason: StayReason
    message: str
    notes: list[str] = []


class Loss(msgspec.Struct, frozen=True, rename="camel"):
    """What stops running, and what nothing starts again.

    Attributes:
        left: those of them that run nowhere or with too few replicas afterwards.
        not_simulated: the workloads that lose copies and belong to a scheduler that is not simulated. Where that
            scheduler places them is not known, and they are not in ``left``.
        hanging: for each deleted cluster that stays in deletion, the workloads whose bindings still name it.
    """

    lost: list[str]
    removed: list[str]
    workloads: int = 0
    replicas: int = 0
    only_copy: list[str] = []
    left: list[str] = []
    not_simulated: list[str] = []
    preserved: list[str] = []
    hanging: dict[str, list[str]] = {}


class Plan(msgspec.Struct, frozen=True, rename="camel"):
    """What a change would move.

    Attributes:
        id: the identity of change and answer (``plan_id``). Equal ids mean the same change with the same effect.
        summary: the totals. ``workloads`` counts all workloads of the world.
        concerned: how many workloads the change concerns: those whose policy, template or clusters it changes.
        complete: whether everything is known that the answer depends on. If not, ``gaps`` says what is missing, and
            more workloads may move.
        unplaced: the workloads that cannot be scheduled: those by the change first, those without a cluster first.
        moves: the workloads that move, the largest number of replicas first.
        evicting_taints: whether a cluster gets a NoExecute taint, so that the answer depends on whether Karmada evicts.
    """

    id: str
    summary: PlanSummary
    concerned: int
    deleted_copies: int
    complete: bool
    gaps: list[str]
    policies: list[PolicyEffect]
    unplaced: list[UnplacedWorkload]
    moves: list[PlannedMove]
    overcommitted: list[str]
    clusters: list[ClusterTotal]
    staying: list[StayingWorkload]
    overrides: list[str] = []
    assumptions: Assumptions = ALL_OFF
    preemption_matters: bool = False
    evicting_taints: bool = False
    loss: Loss | None = None

    @property
    def moves_anything(self) -> bool:
        """Whether the change has an effect on where workloads run."""
        return bool(self.moves or self.summary.new_failures)
