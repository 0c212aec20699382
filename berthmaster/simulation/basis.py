"""What the plan of a change was computed from, so that the plan answers for no other state of the fleet.

Policies and clusters count as a whole. Of the workloads, those count that the change concerns. All of them count if the
change can reach others, too: through dependencies, or through groups of workload affinity.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from berthmaster.model.cluster import Cluster
from berthmaster.model.gaps import Gap
from berthmaster.model.holding import PolicyCatalog
from berthmaster.model.policy import Policy
from berthmaster.model.prerequisites import prerequisites
from berthmaster.model.taint_policy import ClusterTaintPolicy
from berthmaster.simulation.change_set import ChangeSet, PlanIndex, WorkloadKey, is_companion, policy_edits
from berthmaster.simulation.plan_answer import Assumptions
from berthmaster.simulation.workload import SimulatedWorkload


@dataclass(frozen=True, slots=True, eq=False)
class PlanBasis:
    """A state of the fleet, as far as the plan of one change of policies depends on it.

    Attributes:
        workloads: the workloads that count, by their keys.
        existence: whether the objects exist that policies wait for; None if that is not known.
        gaps: what is not known that the plan depends on.
    """

    policies: Sequence[Policy]
    clusters: Mapping[str, Cluster]
    workloads: Mapping[WorkloadKey, SimulatedWorkload]
    existence: Mapping[str, bool | None]
    taint_policies: Sequence[ClusterTaintPolicy]
    assumptions: Assumptions
    gaps: Sequence[Gap]

    def is_same(self, other: "PlanBasis") -> bool:
        """Return whether a plan on both states has the same result. False if that is not certain."""
        if self.assumptions != other.assumptions or self.existence != other.existence:
            return False
        if list(self.gaps) != list(other.gaps) or tuple(self.taint_policies) != tuple(other.taint_policies):
            return False
        if self.clusters.keys() != other.clusters.keys() or self.workloads.keys() != other.workloads.keys():
            return False
        return (
            _is_equal(self.policies, other.policies)
            and all(_is_same_cluster(each, other.clusters[name]) for name, each in self.clusters.items())
            and all(_is_equal(each, other.workloads[key]) for key, each in self.workloads.items())
        )


def basis_of(index: PlanIndex, changes: ChangeSet, gaps: Sequence[Gap]) -> PlanBasis:
    """Return what the plan of changes of policies depends on. The caller holds the lock of the index."""
    world, policies = index.world, index.world.policies
    keys: set[WorkloadKey] = set()
    for edit in policy_edits(index, changes):
        policies = edit.applied(policies)
        keys.update(index.concerned(edit, world.detector(edit, PolicyCatalog(policies))))
    workloads = {key: each for key in keys if (each := index.get(key)) is not None}
    reaches_others = (
        world.workload_affinity
        or any(each.spec.propagate_deps for each in policies)
        or any(map(is_companion, workloads.values()))
    )
    return PlanBasis(
        policies=world.policies,
        clusters=world.clusters,
        workloads=index.workloads if reaches_others else workloads,
        existence={name: world.existing.has(name) for name in prerequisites((*world.policies, *changes.policies))},
        taint_policies=world.taint_policies,
        assumptions=world.assumptions,
        gaps=gaps,
    )


def _is_equal(one: object, other: object) -> bool:
    return one is other or one == other


def _is_same_cluster(one: Cluster, other: Cluster) -> bool:
    """Return whether two clusters are the same for decisions. A heartbeat changes only the version of the object."""
    return one is other or _without_version(one) == _without_version(other)


def _without_version(cluster: Cluster) -> Cluster:
    return replace(cluster, metadata=replace(cluster.metadata, resource_version="", generation=0))
