"""Builders of KubeAdmiral's objects. A value that a test does not set has a default without effect on decisions.

By default a cluster has joined, is ready, serves Deployments and ConfigMaps, and has no taints and no resources. A
unit is a Deployment in Duplicate mode without requirements.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from builders import quantities, taint

from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert
from berthmaster.model.kubeadmiral.clusters import (
    APIResourceType,
    FederatedCluster,
    FederatedClusterResources,
    FederatedClusterSpec,
    FederatedClusterStatus,
    as_cluster,
)
from berthmaster.model.kubeadmiral.policies import ClusterSelectorTerm, KubeAdmiralPolicy, KubeAdmiralSpec
from berthmaster.model.meta import ObjectMeta, Timestamp
from berthmaster.scheduling.decision import Decision
from berthmaster.scheduling.diagnosis import GroupDiagnosis, explain_groups
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral.preparation import UnitWorkload, prepare
from berthmaster.scheduling.kubeadmiral.profile import DEFAULT_PLUGINS, PluginNames, kubeadmiral_profile
from berthmaster.scheduling.kubeadmiral.unit import Preference, SchedulingUnit, placed, request_of
from berthmaster.scheduling.scheduler import Scheduler

NOW = convert(Timestamp, "2026-03-01T12:00:00Z")
DEPLOYMENTS = APIResourceType(group="apps", version="v1", kind="Deployment", plural_name="deployments")
CONFIG_MAPS = APIResourceType(version="v1", kind="ConfigMap", plural_name="configmaps")


def member(
    name: str = "member1",
    *,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[str] = (),
    allocatable: Mapping[str, str | float] | None = None,
    available: Mapping[str, str | float] | None = None,
    serves: Iterable[APIResourceType] = (DEPLOYMENTS, CONFIG_MAPS),
    joined: str = "True",
    ready: str = "True",
    deleting: bool = False,
) -> Cluster:
    """Return the Cluster of a FederatedCluster. If ``available`` is None, nothing is used."""
    metadata: dict[str, Any] = {"name": name, "labels": dict(labels or {})}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    there = quantities(allocatable or {})
    conditions = [{"type": "Joined", "status": joined}, {"type": "Ready", "status": ready}]
    return as_cluster(
        FederatedCluster(
            metadata=convert(ObjectMeta, metadata),
            spec=FederatedClusterSpec(taints=tuple(map(taint, taints))),
            status=convert(
                FederatedClusterStatus,
                {
                    "conditions": [each for each in conditions if each["status"]],
                    "resources": FederatedClusterResources(
                        allocatable=there, available=there if available is None else quantities(available)
                    ),
                    "apiResourceTypes": tuple(serves),
                },
            ),
        )
    )


def unit(
    *,
    requests: Mapping[str, str | float] | None = None,
    preferences: Mapping[str, Preference] | None = None,
    **fields: Any,
) -> SchedulingUnit:
    """Return a unit. The clusters of ``preferences`` are its candidates."""
    identity = {"api_version": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"}
    preferences = preferences or {}
    fields.setdefault("candidates", frozenset(preferences))
    return SchedulingUnit(**{**identity, "requests": quantities(requests or {}), "preferences": preferences, **fields})


def divided(replicas: int, **fields: Any) -> SchedulingUnit:
    return unit(divide=True, replicas=replicas, **fields)


class Decided:
    """A unit that was scheduled.

    Attributes:
        decision: of the engine.
        clusters: replicas by cluster, as KubeAdmiral writes them.
        diagnosis: of its only attempt. None without an attempt.
    """

    def __init__(self, asked: SchedulingUnit, clusters: Iterable[Cluster], plugins: PluginNames = DEFAULT_PLUGINS):
        scheduler, request = Scheduler(Fleet(clusters), kubeadmiral_profile(plugins)), request_of(asked)
        self.decision: Decision = scheduler.schedule(request)
        self.clusters = placed(asked, self.decision)
        self.diagnosis: GroupDiagnosis | None = next(iter(explain_groups(scheduler, request, self.decision)), None)

    @property
    def fitting(self) -> set[str]:
        clusters = self.diagnosis.clusters if self.diagnosis is not None else []
        return {each.cluster for each in clusters if not each.rejections}

    @property
    def rejections(self) -> dict[str, list[tuple[str, str]]]:
        clusters = self.diagnosis.clusters if self.diagnosis is not None else []
        return {
            each.cluster: [(one.plugin, one.reason) for one in each.rejections] for each in clusters if each.rejections
        }


def spec(**fields: Any) -> KubeAdmiralSpec:
    """Return the spec of a policy from JSON fields, in Duplicate mode."""
    return convert(KubeAdmiralSpec, {"schedulingMode": "Duplicate", **fields})


def policy(name: str = "policy", **fields: Any) -> KubeAdmiralPolicy:
    return KubeAdmiralPolicy(metadata=ObjectMeta(name=name, namespace="default"), spec=spec(**fields))


def term(*expressions: tuple[Any, ...], fields: Iterable[tuple[Any, ...]] = ()) -> ClusterSelectorTerm:
    """Return a term from (key, operator, value...) tuples over labels and over fields."""
    requirements = [
        [{"key": key, "operator": operator, "values": values} for key, operator, *values in each]
        for each in (expressions, fields)
    ]
    return convert(ClusterSelectorTerm, {"matchExpressions": requirements[0], "matchFields": requirements[1]})


def web(replicas: int | None = 3, **fields: Any) -> UnitWorkload:
    return UnitWorkload("apps/v1", "Deployment", "web", "default", "spec.replicas", replicas, **fields)


def unit_from(line: Mapping[str, Any]) -> SchedulingUnit:
    """Return the unit of a recorded line. Its policy gets no defaults."""
    recorded = line["object"]
    workload = UnitWorkload(
        api_version=recorded["apiVersion"],
        kind=recorded["kind"],
        name=recorded["name"],
        namespace=recorded["namespace"],
        replicas_path="spec.replicas" if recorded["kind"] != "ConfigMap" else "",
        replicas=recorded["replicas"],
        requests=quantities({"nvidia.com/gpu": recorded["gpu"]} if "gpu" in recorded else {}),
        current=recorded.get("current") or {},
    )
    return prepare(workload, convert(KubeAdmiralSpec, line["policy"]), {}, NOW).unit
