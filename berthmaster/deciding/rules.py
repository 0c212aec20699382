"""What distinguishes the schedulers that a binding can name. In everything else they decide alike.

karmada-scheduler (``pkg/scheduler``, commit f8fdd02df) and Berthmaster's binding scheduler filter, score, select and
divide in the same way. They differ in what makes them look at a binding again. docs/differences.md has the reasons.
"""

from dataclasses import dataclass
from typing import Final

from berthmaster.model.binding import NO_CLUSTER_FIT, Binding
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.trigger import Trigger, trigger_of

OWN: Final = "berthmaster"
"""The ``spec.schedulerName`` of Berthmaster's binding scheduler, unless its controllers record another one."""


@dataclass(frozen=True, slots=True)
class SchedulerRules:
    """The rules of one scheduler.

    Attributes:
        retries: whether it tries a binding again that fitted no cluster, also if it has no replicas. karmada-scheduler
            ignores that error (``getConditionByError``).
        leaves_missing_clusters: whether it leaves a cluster that does not exist, even if it missed the deletion.
        notices_deletions: whether the deletion of a cluster makes it look at each binding that names the cluster.
            karmada-scheduler looks at those only whose affinity matches the cluster (``enqueueAffectedBindings``).
        asks_every_group: whether it asks the groups before that of the assignment, too, if that one and the later ones
            cannot hold the workload.
        deducts: whether a decision sees the replicas of the decisions before it that clusters do not report yet.
            karmada-scheduler does so with a gate that is off (``SchedulingOvercommitProtection``).
    """

    retries: bool
    leaves_missing_clusters: bool
    notices_deletions: bool
    asks_every_group: bool
    deducts: bool


KARMADA: Final = SchedulerRules(
    retries=False, leaves_missing_clusters=False, notices_deletions=False, asks_every_group=False, deducts=False
)
BERTHMASTER: Final = SchedulerRules(
    retries=True, leaves_missing_clusters=True, notices_deletions=True, asks_every_group=True, deducts=True
)


def rules_of(binding: Binding, own: str = OWN) -> SchedulerRules:
    """Return the rules of the scheduler that a binding names.

    Args:
        own: the name that Berthmaster's scheduler serves. Every other name stands for Karmada's rules.
    """
    return BERTHMASTER if binding.scheduler == own else KARMADA


def trigger_by(rules: SchedulerRules, binding: Binding, fleet: Fleet) -> Trigger:
    """Return why a scheduler must schedule a binding now.

    If all clusters of a fleet are missing, that is more likely a fault, and nothing is done.
    """
    trigger = trigger_of(binding, fleet)
    if trigger is not Trigger.NONE or binding.spec.placement is None:
        return trigger
    if rules.retries and (known := binding.scheduled) is not None and known.reason == NO_CLUSTER_FIT:
        return Trigger.RECONCILE
    if rules.leaves_missing_clusters and len(fleet) and misses_cluster(binding, fleet):
        return Trigger.FAILOVER
    return Trigger.NONE


def needs_any_group(binding: Binding, *, loses_all: bool) -> bool:
    """Return whether a workload that no group could hold from its own one on needs another group.

    Args:
        loses_all: whether the failure takes the assignment away.
    """
    placement = binding.spec.placement
    if placement is None or not placement.cluster_affinities:
        return False
    return not binding.spec.clusters or loses_all or sum(binding.assignment.values()) < binding.spec.replicas


def misses_cluster(binding: Binding, fleet: Fleet) -> bool:
    """Return whether a binding names a cluster that does not exist."""
    return any(fleet.get(each.name) is None for each in binding.spec.clusters)
