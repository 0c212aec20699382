"""Values for tests. A field that a test does not set has a default that does not affect decisions.

All defaults are valid. A cluster is ready, serves Deployments, and has no taints and no resources. A policy places
the Deployments of its namespace on every cluster. A binding places one replica of ``deployment()``.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from berthmaster.model.binding import Binding, BindingSpec, BindingStatus, ObjectReference, TargetCluster, binding_name
from berthmaster.model.cluster import (
    APIEnablement,
    APIResource,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    Condition,
    ResourceModel,
    ResourceModelRange,
    ResourceSummary,
)
from berthmaster.model.decode import convert
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.placement import Placement
from berthmaster.model.policy import Policy, PropagationSpec, ResourceSelector
from berthmaster.model.quantity import Quantity
from berthmaster.model.replicas import ReplicaRequirements
from berthmaster.model.taint import Taint

SERVED = (
    APIEnablement(
        group_version="apps/v1",
        resources=(
            APIResource(name="deployments", kind="Deployment"),
            APIResource(name="statefulsets", kind="StatefulSet"),
        ),
    ),
    APIEnablement(
        group_version="v1",
        resources=(APIResource(name="configmaps", kind="ConfigMap"), APIResource(name="pods", kind="Pod")),
    ),
    APIEnablement(group_version="batch/v1", resources=(APIResource(name="jobs", kind="Job"),)),
)
"""The kinds that a cluster serves by default."""


def quantities(amounts: Mapping[str, str | float]) -> dict[str, Quantity]:
    return {name: Quantity.parse(amount) for name, amount in amounts.items()}


def taint(text: str) -> Taint:
    """A taint from ``key[=value]:Effect``, the text of kubectl."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return Taint(key=key, value=value, effect=effect)


def model(grade: int, minima: Mapping[str, str | float]) -> ResourceModel:
    """A grade of nodes, from the smallest amounts that place a node in it."""
    most = Quantity.parse("1E")
    ranges = (ResourceModelRange(name, least, most) for name, least in quantities(minima).items())
    return ResourceModel(grade, tuple(ranges))


def cluster(
    name: str = "member1",
    *,
    region: str = "",
    zone: str = "",
    zones: Sequence[str] = (),
    provider: str = "",
    labels: Mapping[str, str] | None = None,
    taints: Iterable[str] = (),
    cpu: str | float | None = None,
    memory: str | float | None = None,
    pods: str | float | None = None,
    allocated: Mapping[str, str | float] | None = None,
    resource_summary: ResourceSummary | None = None,
    models: Iterable[Mapping[str, str | float]] = (),
    serves: Iterable[APIEnablement] = SERVED,
    ready: bool = True,
    deleting: bool = False,
) -> Cluster:
    """A cluster. ``cpu``, ``memory`` and ``pods`` are allocatable amounts, ``taints`` are ``key[=value]:Effect``.

    ``models`` are the smallest amounts of each grade of nodes, from grade 0.

    Without amounts and without ``resource_summary``, the cluster reports no resources. With any amount, the default
    of ``pods`` is 110.
    """
    given = {"cpu": cpu, "memory": memory, "pods": pods}
    amounts = {name: amount for name, amount in given.items() if amount is not None}
    if amounts and resource_summary is None:
        resource_summary = ResourceSummary(
            allocatable=quantities({"pods": 110, **amounts}), allocated=quantities(allocated or {})
        )
    return convert(
        Cluster,
        {
            "metadata": _metadata(name, labels=labels, deleting=deleting),
            "spec": ClusterSpec(
                region=region,
                zone=zone,
                zones=tuple(zones),
                provider=provider,
                taints=tuple(map(taint, taints)),
                resource_models=tuple(itertools.starmap(model, enumerate(models))),
            ),
            "status": ClusterStatus(
                api_enablements=tuple(serves),
                conditions=(Condition(type="Ready", status="True" if ready else "False"),),
                resource_summary=resource_summary,
            ),
        },
    )


def placement(**fields: Any) -> Placement:
    """A placement from its JSON fields: ``placement(clusterAffinity={"clusterNames": ["member1"]})``."""
    return convert(Placement, fields)


def selector(kind: str = "Deployment", api_version: str = "apps/v1", **fields: Any) -> ResourceSelector:
    """A resource selector. Further fields have their JSON names."""
    return convert(ResourceSelector, {"apiVersion": api_version, "kind": kind, **fields})


def policy(
    name: str = "policy",
    *,
    namespace: str = "default",
    cluster_scoped: bool = False,
    selectors: Sequence[ResourceSelector] | None = None,
    placement: Placement | None = None,
    priority: int | None = None,
    deleting: bool = False,
    **spec: Any,
) -> Policy:
    """A policy. Further fields of ``PropagationSpec`` have their Python names."""
    return Policy(
        kind="ClusterPropagationPolicy" if cluster_scoped else "PropagationPolicy",
        metadata=convert(ObjectMeta, _metadata(name, "" if cluster_scoped else namespace, deleting=deleting)),
        spec=PropagationSpec(
            resource_selectors=tuple(selectors if selectors is not None else [selector()]),
            placement=placement or Placement(),
            priority=priority,
            **spec,
        ),
    )


def binding(
    name: str = "nginx",
    *,
    namespace: str = "default",
    kind: str = "Deployment",
    api_version: str = "apps/v1",
    replicas: int = 1,
    requests: Mapping[str, str | float] | None = None,
    placement: Placement | None = None,
    clusters: Mapping[str, int] | None = None,
    uid: str = "",
    annotations: Mapping[str, str] | None = None,
    status: BindingStatus | None = None,
    **spec: Any,
) -> Binding:
    """The binding of the workload ``name``. ``clusters`` is the current assignment: replicas by cluster.

    If ``requests`` is None, there are no requirements. Further fields of ``BindingSpec`` have their Python names.
    """
    return Binding(
        kind="ResourceBinding" if namespace else "ClusterResourceBinding",
        metadata=convert(ObjectMeta, _metadata(binding_name(kind, name), namespace, annotations=annotations)),
        spec=BindingSpec(
            resource=ObjectReference(api_version=api_version, kind=kind, name=name, namespace=namespace, uid=uid),
            replicas=replicas,
            replica_requirements=(
                ReplicaRequirements(resource_request=quantities(requests)) if requests is not None else None
            ),
            placement=placement or Placement(),
            clusters=tuple(TargetCluster(name=each, replicas=count) for each, count in (clusters or {}).items()),
            **spec,
        ),
        status=status or BindingStatus(),
    )


def deployment(
    name: str = "nginx",
    *,
    namespace: str | None = "default",
    replicas: int | None = 1,
    labels: Mapping[str, str] | None = None,
    requests: Mapping[str, str | float] | None = None,
    pod_spec: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The manifest of a Deployment. None omits ``namespace`` or ``replicas``; ``pod_spec`` adds fields."""
    container: dict[str, Any] = {"name": name, "image": "nginx:1.27"}
    if requests is not None:
        container["resources"] = {"requests": dict(requests)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(name, namespace or "", labels=labels),
        "spec": {
            **({} if replicas is None else {"replicas": replicas}),
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container], **(pod_spec or {})},
            },
        },
    }


def _metadata(
    name: str,
    namespace: str = "",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    deleting: bool = False,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
    }
    if namespace:
        metadata["namespace"] = namespace
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {key: value for key, value in metadata.items() if value}
