"""The plan of a change as a value that the command prints and the extender's API returns."""

from enum import Enum

import msgspec

from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.prices import CostChange
from berthmaster.simulation.assumptions import ALL_OFF, Assumptions


class PlanSummary(msgspec.Struct, frozen=True, rename="camel"):
    """What changes would move in total.

    Attributes:
        replicas: the replicas that move: of each workload those that arrive or those that leave, whichever are more.
        new_failures: those of the last two that are so because of the changes.
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

    Attributes:
        arriving: the replicas that the cluster does not run now; None if it is not known what clusters run.
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
        deleted: the clusters whose copy Karmada deletes.
        preserved: the clusters that keep their copy although the workload leaves (``preserveResourcesOnDeletion``).
        evicting: the clusters that the workload leaves by an eviction task: Karmada deletes the copy later.
        trigger: why it is scheduled; NONE for a dependency, which follows other workloads.
        due: whether it would move in the same way without the change, at its next scheduling.
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


class UnplacedWorkload(msgspec.Struct, frozen=True, rename="camel"):
    """A workload that cannot be scheduled after the change.

    Attributes:
        nowhere: whether it has no cluster at all. If not, it keeps its clusters, but not with all replicas.
        by_change: whether it can be scheduled without the change.
    """

    resource: str
    policy: str | None
    nowhere: bool
    by_change: bool
    message: str


class StayingWorkload(msgspec.Struct, frozen=True, rename="camel"):
    """A workload that the change concerns and that does not move."""

    resource: str
    policy: str | None
    reason: StayReason
    message: str


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
