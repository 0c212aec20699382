"""The kinds that the extender's state and the controllers watch, and how to decode their objects."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec.structs

from berthmaster.kube.requests import CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS, Collection
from berthmaster.model.binding import READY, AggregatedStatusItem, Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.cluster_node import Node, cluster_of_node
from berthmaster.model.control_planes import KARMADA, ControlPlane
from berthmaster.model.decode import decode_json
from berthmaster.model.move import MOVE
from berthmaster.model.policy import POLICY_KINDS
from berthmaster.model.policy_defaults import defaulted
from berthmaster.model.shared_parts import SharingReader
from berthmaster.model.unsupported_placement import decode_checked_policy
from berthmaster.model.validation import binding_errors
from berthmaster.model.work import FederatedResourceQuota

T = TypeVar("T")
_SHARING: Final = SharingReader()
WORKS: Final = Collection.of("work.karmada.io/v1alpha1", "works")
_CLUSTERS: Final = 2**14


class Watched(NamedTuple, Generic[T]):
    """A collection to watch. ``read`` decodes an object; raises an ``InputError`` if that is not possible."""

    collection: Collection
    read: Callable[[bytes], T]


NODES = Watched(Collection.of("v1", "nodes"), lambda raw: cluster_of_node(decode_json(Node, raw)))
KARMADA_POLICIES = tuple(
    Watched(Collection.of("policy.karmada.io/v1alpha1", plural), lambda raw: defaulted(decode_checked_policy(raw)))
    for plural in ("propagationpolicies", "clusterpropagationpolicies")
)
POLICIES_BY_KIND = dict(zip(POLICY_KINDS, KARMADA_POLICIES, strict=True))
FEDERATED_QUOTAS = Watched(
    Collection.of("policy.karmada.io/v1alpha1", "federatedresourcequotas"),
    lambda raw: decode_json(FederatedResourceQuota, raw),
)
KARMADA_BINDINGS = tuple(
    Watched(collection, lambda raw: _reduced(_SHARING.binding(raw)))
    for collection in (RESOURCE_BINDINGS, CLUSTER_RESOURCE_BINDINGS)
)
"""Bindings without version, owner and age.

Reports of members are cut to assigned clusters and ready replicas, unless dispatching is suspended or a move is under
way. No decision reads the rest, and it changes often.
"""


def clusters_of(plane: ControlPlane) -> Watched[Cluster]:
    """Return the clusters of a control plane."""
    collection = Collection.of(plane.cluster.api_version, plane.clusters)
    return Watched(collection, lambda raw: _SHARING.cluster(plane.decoded_cluster(raw)))


KARMADA_CLUSTERS = clusters_of(KARMADA)


@lru_cache(maxsize=4 * _CLUSTERS)
def _report(cluster: str, ready: int | None, *, applied: bool) -> AggregatedStatusItem:
    """Return the report that a cluster runs a workload. All bindings share it. ``ready`` is None if not known."""
    return AggregatedStatusItem(cluster, None if ready is None else {READY: ready}, applied)


def _reports(binding: Binding) -> Iterator[AggregatedStatusItem]:
    if binding.spec.suspension is not None or MOVE in binding.metadata.annotations:
        # Where a copy exists although nothing is dispatched, and what a move waits for.
        for each in binding.status.aggregated_status:
            yield msgspec.structs.replace(each, applied_message="")
        return
    reported = binding.reports
    most: dict[str, int | None] = {each.from_cluster: None for each in binding.spec.graceful_eviction_tasks}
    for name, replicas in (most | binding.assignment).items():
        if (item := reported.get(name)) is not None and item.runs:
            counted = item.counts_ready or not item.applied
            ready = item.ready_replicas if replicas is None else min(item.ready_replicas, replicas)
            yield _report(name, ready if counted else None, applied=item.applied)


def _reduced(binding: Binding) -> Binding:
    for error in binding_errors(binding):
        raise error
    metadata = msgspec.structs.replace(
        binding.metadata, resource_version="", generation=0, finalizers=(), owner_references=(), creation_timestamp=None
    )
    status = msgspec.structs.replace(binding.status, aggregated_status=tuple(_reports(binding)))
    return msgspec.structs.replace(binding, metadata=metadata, status=status)
