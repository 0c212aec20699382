"""Which clusters scheduling looks at."""

from fleet.model.cluster import Cluster
from fleet.model.federated_cluster import JOINED


def is_joined(cluster: Cluster) -> bool:
    """Whether a cluster is part of the federation."""
    return any(each.type == JOINED and each.status == "True" for each in cluster.status.conditions)
