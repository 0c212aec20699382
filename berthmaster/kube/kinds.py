"""The kinds that the extender's state and the controllers watch, and how to decode their objects."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from berthmaster.kube.requests import Collection
from berthmaster.model.cluster import Cluster, Node, cluster_of_node
from berthmaster.model.decode import decode_json
from berthmaster.model.kubeadmiral import FederatedCluster, as_cluster
from berthmaster.model.policy import Policy, defaulted

T = TypeVar("T")


class Watched(NamedTuple, Generic[T]):
    """A collection to watch.

    Attributes:
        read: decodes an object; raises an ``InputError`` if that is not possible.
    """

    collection: Collection
    read: Callable[[bytes], T]


NODES = Watched(Collection.of("v1", "nodes"), lambda raw: cluster_of_node(decode_json(Node, raw)))
KARMADA_CLUSTERS = Watched(
    Collection.of("cluster.karmada.io/v1alpha1", "clusters"), lambda raw: decode_json(Cluster, raw)
)
FEDERATED_CLUSTERS = Watched(
    Collection.of("core.kubeadmiral.io/v1alpha1", "federatedclusters"),
    lambda raw: as_cluster(decode_json(FederatedCluster, raw)),
)
KARMADA_POLICIES = tuple(
    Watched(Collection.of("policy.karmada.io/v1alpha1", plural), lambda raw: defaulted(decode_json(Policy, raw)))
    for plural in ("propagationpolicies", "clusterpropagationpolicies")
)


CLUSTER_KINDS: Final = {"nodes": NODES, "clusters": KARMADA_CLUSTERS, "federatedclusters": FEDERATED_CLUSTERS}
POLICIES: Final = "policies"


class WatchOptions(NamedTuple):
    """What to watch, and on which API server.

    Attributes:
        kinds: one of ``CLUSTER_KINDS``, optionally with ``POLICIES``.
        kubeconfig: access to the API server; None for the cluster that this process runs in.
        context: the context of the kubeconfig; None for the current context.
    """

    kinds: Sequence[str]
    kubeconfig: Path | None = None
    context: str | None = None
