"""What an answer assumes about the switches of a control plane: eviction, failover and preemption.

Karmada moves nothing off a lost cluster by default. Since 1.14 it only taints the cluster with NoSchedule. Workloads
are evicted if three things hold: the feature gate ``Failover`` is on, ``--enable-no-execute-taint-eviction`` is given
(both to karmada-controller-manager, both off by default), and the cluster has a NoExecute taint, which a person or a
ClusterTaintPolicy adds. Berthmaster's controllers replace lost clusters with ``--failover=not-ready`` only.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec
import msgspec.structs

from berthmaster.deciding.lease_record import DEFAULT_BRAKE, BrakeLimits, ControllersRecord
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import NO_EXECUTE, Cluster, Condition
from berthmaster.model.policy import ClusterTaintPolicy

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
        replaces: the ``spec.schedulerName`` of the bindings whose lost clusters Berthmaster replaces; empty for none.
    """

    failover: Switch = Switch.AUTO
    evicts: bool = False
    taints_lost: bool = False
    tainted_by: tuple[str, ...] = ()
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
ALL_ON: Final = Assumptions(
    Switch.ON, evicts=True, taints_lost=True, failover_basis=Basis.ASKED,
    preemption=Switch.ON, preempts=True, preemption_basis=Basis.ASKED,
)  # fmt: skip


def assumptions(
    failover: Switch,
    preemption: Switch,
    controllers: ControllersRecord | None,
    bindings: Iterable[Binding],
    *,
    braked: bool = False,
    brake: BrakeLimits = DEFAULT_BRAKE,
    tainted_by: tuple[str, ...] = (),
) -> Assumptions:
    """Return what an answer assumes.

    Args:
        controllers: what the running controllers record; None if none run, or if that is not known.
        bindings: the bindings of the control plane. Their eviction tasks say whether Karmada evicts.
    """
    found = _failover(failover, controllers, bindings, braked=braked)
    preempts, basis = _preemption(preemption, controllers)
    return msgspec.structs.replace(
        found, preemption=preemption, preempts=preempts, preemption_basis=basis, tainted_by=tainted_by, brake=brake
    )


def not_ready(cluster: Cluster) -> Cluster:
    """Return a cluster that has failed, before any taint.

    Karmada does not reach a cluster in push mode, and hears no more of one in pull mode.
    """
    pulls = cluster.spec.sync_mode == "Pull"
    status, reason = ("Unknown", "ClusterStatusUnknown") if pulls else ("False", "ClusterNotReachable")
    others = (each for each in cluster.status.conditions if each.type != "Ready")
    condition = Condition("Ready", status, reason, "taken down by the simulation")
    return msgspec.structs.replace(
        cluster, status=msgspec.structs.replace(cluster.status, conditions=(*others, condition))
    )


def evicting_policies(policies: Iterable[ClusterTaintPolicy], clusters: Iterable[Cluster]) -> tuple[str, ...]:
    """Return the names of the policies that give one of the clusters a NoExecute taint when it fails."""
    chosen = [each for each in policies if any(taint.effect == NO_EXECUTE for taint in each.spec.taints)]
    failed = [not_ready(each) for each in clusters] if chosen else []

    def evicts(policy: ClusterTaintPolicy, cluster: Cluster) -> bool:
        return any(
            each.effect == NO_EXECUTE and each in policy.spec.taints for each in policy.tainted(cluster).spec.taints
        )

    return tuple(each.metadata.name for each in chosen if any(evicts(each, cluster) for cluster in failed))


def _failover(
    asked: Switch, controllers: ControllersRecord | None, bindings: Iterable[Binding], *, braked: bool
) -> Assumptions:
    match asked:
        case Switch.ON:
            return Assumptions(asked, evicts=True, taints_lost=True, failover_basis=Basis.ASKED)
        case Switch.OFF:
            return Assumptions(asked, failover_basis=Basis.ASKED)
        case Switch.AUTO:
            evicts = any(_is_evicted_by_taint(each) for each in bindings)
            recorded = controllers is not None and controllers.failover_after_s is not None
            if controllers is None or controllers.failover_after_s is None or braked:
                basis = Basis.BRAKED if recorded else Basis.TASKS if evicts else Basis.DEFAULT
                return Assumptions(asked, evicts=evicts, failover_basis=basis)
            return Assumptions(
                asked,
                evicts=evicts,
                replaces=controllers.scheduler,
                replaced_after_s=controllers.failover_after_s,
                failover_basis=Basis.RECORDED,
            )


def _preemption(asked: Switch, controllers: ControllersRecord | None) -> tuple[bool, Basis]:
    if asked is not Switch.AUTO:
        return asked is Switch.ON, Basis.ASKED
    recorded = controllers is not None and controllers.preempts
    return recorded, Basis.RECORDED if recorded else Basis.DEFAULT


def _is_evicted_by_taint(binding: Binding) -> bool:
    return any(task.producer == TAINT_MANAGER for task in binding.spec.graceful_eviction_tasks)
