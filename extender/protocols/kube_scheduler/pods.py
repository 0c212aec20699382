"""What a pod is to the engine: a workload with one replica, that belongs to what controls it."""

from collections.abc import Iterator
from typing import Final

from berthmaster.model.meta import OwnerReference
from berthmaster.model.placement import Placement
from berthmaster.model.replicas import Template, pod_requests
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import requests_of
from extender.protocols.kube_scheduler.wire import Pod

POD: Final = ("v1", "Pod")
_REPLICA_SET: Final = ("apps/v1", "ReplicaSet")
_DEPLOYMENT: Final = ("apps/v1", "Deployment")
_TEMPLATE_HASH: Final = "pod-template-hash"


def request_of(pod: Pod, placement: Placement) -> Request:
    """The request that a pod makes: one replica, that is nowhere yet."""
    metadata = pod.metadata
    return Request(
        name=metadata.name,
        namespace=metadata.namespace,
        api_version=POD[0],
        kind=POD[1],
        uid=metadata.uid,
        placement=placement,
        replicas=1,
        requests=requests_of(pod_requests(pod.spec)),
        current={},
        is_workload=True,
    )


def templates_of(pod: Pod) -> Iterator[Template]:
    """The resources whose policy may be the pod's: itself, its controller, and a ReplicaSet's Deployment.

    Controllers are not looked up. The name of a Deployment is that of its ReplicaSet without the hash of the pod
    template, which the pod has as a label; the labels of all of them are taken to be the pod's.
    """
    metadata = pod.metadata
    labels = metadata.labels
    yield Template(*POD, metadata.name, metadata.namespace, labels)
    owner = next((each for each in metadata.owner_references if each.controller), None)
    if owner is None:
        return
    hash_ = labels.get(_TEMPLATE_HASH, "")
    labels = {key: value for key, value in labels.items() if key != _TEMPLATE_HASH}
    yield Template(owner.api_version, owner.kind, owner.name, metadata.namespace, labels)
    deployment = _deployment_of(owner, hash_)
    if deployment:
        yield Template(*_DEPLOYMENT, deployment, metadata.namespace, labels)


def _deployment_of(owner: OwnerReference, template_hash: str) -> str:
    """The name of the Deployment that a ReplicaSet belongs to by its name; empty if it says of none."""
    suffix = f"-{template_hash}"
    if (owner.api_version, owner.kind) != _REPLICA_SET or not template_hash or not owner.name.endswith(suffix):
        return ""
    return owner.name.removesuffix(suffix)
