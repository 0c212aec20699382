"""From manifests to a world."""

from collections.abc import Sequence

from berthmaster.manifests import Manifests
from berthmaster.model.errors import FieldError
from berthmaster.model.template import ReplicaPath
from berthmaster.simulation.world import Claimant, World


def world_of(
    manifests: Manifests, replica_paths: Sequence[ReplicaPath] = (), *, workload_affinity: bool = False
) -> World:
    """The world that manifests describe: every resource with the policies that match it and the binding it has.

    Raises:
        ManifestError: something in a resource that decides has a wrong value.
    """
    claimant = Claimant(manifests.policies, manifests.bindings, replica_paths, workload_affinity=workload_affinity)
    workloads = []
    for document in manifests.templates:
        try:
            workloads.append(claimant.claim(document.raw))
        except FieldError as error:
            raise document.error(error) from None
    clusters = {cluster.name: cluster for cluster in manifests.clusters}
    return World(clusters, [*workloads, *claimant.unclaimed()], tuple(manifests.policies), workload_affinity)
