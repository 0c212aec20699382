"""The replicas that OverridePolicies set for the copies of workloads, as each workload of a world has them.

Overrides change no assignment. They change how many replicas a member runs, and so what a loss stops.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from berthmaster.model.cluster import Cluster
from berthmaster.model.overrides import OverridePolicy, replicas_set
from berthmaster.model.replicas import template_of
from berthmaster.simulation.workload import SimulatedWorkload


def overridden(
    workload: SimulatedWorkload, overrides: Iterable[OverridePolicy], clusters: Mapping[str, Cluster]
) -> SimulatedWorkload:
    """Return a workload with the replicas that overrides set. Returns the same object if they stay the same.

    Args:
        overrides: all overrides that set replicas.
        clusters: the clusters that they select from.
    """
    found = replicas_set(overrides, template_of(workload.manifest), clusters)
    return workload if found == workload.overridden else replace(workload, overridden=found)


def all_overridden(
    workloads: Sequence[SimulatedWorkload], overrides: Sequence[OverridePolicy], clusters: Mapping[str, Cluster]
) -> Sequence[SimulatedWorkload]:
    """Return workloads with the replicas that overrides set. Returns the same object if there are no overrides."""
    return [overridden(each, overrides, clusters) for each in workloads] if overrides else workloads
