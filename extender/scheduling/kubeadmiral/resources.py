"""What a cluster has and uses, in KubeAdmiral's units: CPU in millicores, everything else in whole units."""

from dataclasses import dataclass

from extender.scheduling.kubeadmiral.unit import SchedulingUnit
from extender.scheduling.resources import amount_of
from fleet.model.cluster import Cluster, ResourceSummary
from fleet.model.quantity import Quantity

_NOTHING = Quantity(0, "0")


@dataclass(frozen=True, slots=True)
class ClusterResources:
    """The resources of one cluster."""

    summary: ResourceSummary

    def allocatable(self, name: str) -> int:
        """What there is of a resource; 0 for what is not named."""
        return amount_of(name, self.summary.allocatable.get(name, _NOTHING))

    def used(self, name: str) -> int:
        """What of it is not available. More available than there is cannot be: KubeAdmiral takes all as used then."""
        there, available = self.allocatable(name), amount_of(name, self._available(name))
        return there if available > there else there - available

    def allocatable_units(self, name: str) -> int:
        """What there is in whole units, rounded up: cores for CPU."""
        return self.summary.allocatable.get(name, _NOTHING).value()

    def available_units(self, name: str) -> int:
        """What is not used, in whole units, rounded away from zero; may be negative."""
        return self._available(name).value()

    def _available(self, name: str) -> Quantity:
        there, used = (part.get(name, _NOTHING) for part in (self.summary.allocatable, self.summary.allocated))
        return Quantity(there.nanos - used.nanos, "")


def cluster_resources(cluster: Cluster) -> ClusterResources:
    """The resources that a cluster reports; none if it reports nothing."""
    return ClusterResources(cluster.status.resource_summary or ResourceSummary())


def requested(unit: SchedulingUnit) -> dict[str, int]:
    """What one replica requests."""
    return {name: amount_of(name, amount) for name, amount in unit.requests.items()}
