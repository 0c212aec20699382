"""Scenarios for benchmarks of decisions: generated from a seed, or read from a file in the format of the vectors."""

import gzip
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from berthmaster.model.binding import Binding, BindingSpec, BindingStatus
from berthmaster.model.cluster import Cluster, Condition
from berthmaster.model.decode import convert, decode_json
from berthmaster.model.kubeadmiral.clusters import JOINED
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.taint import Toleration
from berthmaster.scheduling.kubeadmiral.unit import Preference, ReplicasStrategy, SchedulingUnit

FLEET_SIZES = (3, 10, 100, 1000, 5000)
REGION_SPREADS = ((20, 10, 10), (24, 12, 12), (26, 13, 13), (30, 10, 12))
BINDINGS = 64
_SIZES_CPU = (64, 128, 512, 2000)
_GIB_PER_CPU = 4


class Scenario(NamedTuple):
    """A fleet, and the bindings to schedule on it one after the other."""

    name: str
    clusters: tuple[Cluster, ...]
    bindings: tuple[Binding, ...]


class GeneratedUnits(NamedTuple):
    """A federation, and the units to schedule on it."""

    name: str
    clusters: tuple[Cluster, ...]
    units: tuple[SchedulingUnit, ...]


class _NamedBinding(msgspec.Struct):
    name: str
    spec: BindingSpec
    status: BindingStatus = BindingStatus()


class _Line(msgspec.Struct):
    id: str
    clusters: tuple[Cluster, ...]
    bindings: tuple[_NamedBinding, ...]


def generated(seed: int) -> Iterator[Scenario]:
    """Yield a fleet of each size with bindings of all strategies.

    Each binding has two groups, and every third has a spread constraint.
    """
    for size in FLEET_SIZES:
        fleet = generated_fleet(seed, size)
        yield fleet._replace(bindings=tuple(_binding(index) for index in range(BINDINGS)))


def generated_fleet(seed: int, size: int) -> Scenario:
    """Return a fleet of one size, without bindings."""
    draw = random.Random(f"{seed}-{size}")
    clusters = tuple(_cluster(draw, index, regions=max(1, size // 20)) for index in range(size))
    return Scenario(f"{size} clusters", clusters, ())


def generated_units(seed: int) -> Iterator[GeneratedUnits]:
    """Yield the same fleets as joined clusters, with units of both planners and of Duplicate mode.

    Every third unit limits the number of clusters.
    """
    for workload in generated(seed):
        clusters = tuple(_joined(cluster) for cluster in workload.clusters)
        yield GeneratedUnits(workload.name, clusters, tuple(_unit(index) for index in range(BINDINGS)))


def generated_regions(seed: int) -> Iterator[Scenario]:
    """Yield fleets of regions of five clusters each, with one binding that spreads over many regions."""
    for regions, least, most in REGION_SPREADS:
        draw = random.Random(f"{seed}-{regions}-regions")
        clusters = tuple(_cluster(draw, index, regions) for index in range(5 * regions))
        constraints = [
            {"spreadByField": "region", "minGroups": least, "maxGroups": most},
            {"spreadByField": "cluster", "minGroups": 4 * least, "maxGroups": 5 * least},
        ]
        placement = {"replicaScheduling": _STRATEGIES[1], "spreadConstraints": constraints}
        many = f"{least}" if least == most else f"{least} to {most}"
        yield Scenario(f"{many} of {regions} regions", clusters, (_as_binding("spread", 50, placement),))


def read(path: Path) -> Iterator[Scenario]:
    """Read the fleets of a JSON Lines file, gzipped or not."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
        for line in lines:
            fleet = decode_json(_Line, line)
            bindings = (Binding(each.spec, ObjectMeta(each.name), each.status) for each in fleet.bindings)
            yield Scenario(fleet.id, fleet.clusters, tuple(bindings))


def with_other_usage(cluster: Cluster, draw: random.Random) -> Cluster:
    """Return the cluster after a status update: only the allocated amounts differ."""
    raw = msgspec.to_builtins(cluster, enc_hook=str)
    cpu = int(cluster.status.resource_summary.allocatable["cpu"].value()) if cluster.status.resource_summary else 0
    raw["status"]["resourceSummary"] = _summary(draw, cpu)
    return convert(Cluster, raw)


def _cluster(draw: random.Random, index: int, regions: int) -> Cluster:
    region = f"region-{index % regions}"
    environment = draw.choices(("prod", "stage", "dev"), (2, 1, 1))[0]
    (taint,) = draw.choices((None, _DEDICATED, _NOT_READY), (92, 6, 2))
    kinds = {"apps/v1": ("Deployment", "StatefulSet"), "v1": ("Pod", "Service", "ConfigMap"), "batch/v1": ("Job",)}
    raw = {
        "metadata": {"name": f"member{index:05}", "labels": {"env": environment, "tier": str(index % 5)}},
        "spec": {
            "provider": f"p{index % 4}",
            "region": region,
            "zones": [f"{region}-z{draw.randrange(3)}"],
            "taints": [] if taint is None else [taint],
        },
        "status": {
            "apiEnablements": [
                {"groupVersion": version, "resources": [{"name": kind.lower() + "s", "kind": kind} for kind in served]}
                for version, served in kinds.items()
            ],
            "conditions": [{"type": "Ready", "status": "True"}],
            "resourceSummary": _summary(draw, draw.choice(_SIZES_CPU)),
        },
    }
    return convert(Cluster, raw)


def _joined(cluster: Cluster) -> Cluster:
    conditions = (*cluster.status.conditions, Condition(JOINED, "True"))
    return msgspec.structs.replace(cluster, status=msgspec.structs.replace(cluster.status, conditions=conditions))


def _unit(index: int) -> SchedulingUnit:
    preferences = {f"member{each:05}": Preference(weight=each + 1) for each in range(3)} if index % 4 == 1 else {}
    return SchedulingUnit(
        api_version="apps/v1",
        kind="Deployment",
        namespace="default",
        name=f"shop-{index}",
        divide=index % 4 != 3,
        replicas=3 + index % 48,
        strategy=ReplicasStrategy.BINPACK if index % 4 == 2 else ReplicasStrategy.SPREAD,
        cluster_selector={"env": "prod"} if index % 2 else {},
        tolerations=(Toleration(key="dedicated", operator="Exists"),) if index % 5 == 0 else (),
        max_clusters=5 if index % 3 == 0 else None,
        preferences=preferences,
        avoid_disruption=True,
    )


_DEDICATED = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
_NOT_READY = {"key": "cluster.karmada.io/not-ready", "effect": "NoExecute"}


def _summary(draw: random.Random, cpu: int) -> dict[str, Any]:
    used = int(draw.uniform(0, 0.9) * cpu * 1000)
    return {
        "allocatable": {"cpu": str(cpu), "memory": f"{cpu * _GIB_PER_CPU}Gi", "pods": str(cpu * 10)},
        "allocated": {"cpu": f"{used}m", "memory": f"{used * _GIB_PER_CPU // 1000}Gi", "pods": str(used // 100)},
    }


_STRATEGIES: tuple[dict[str, Any], ...] = (
    {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    },
    {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
    {"replicaSchedulingType": "Duplicated"},
    {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {
            "staticWeightList": [
                {"targetCluster": {"labelSelector": {"matchLabels": {"env": "prod"}}}, "weight": 3},
                {"targetCluster": {"labelSelector": {"matchLabels": {"env": "stage"}}}, "weight": 1},
            ]
        },
    },
)


def _binding(index: int) -> Binding:
    backup = [{"key": "region", "operator": "In", "values": ["region-0", "region-1"]}]
    placement: dict[str, Any] = {
        "replicaScheduling": _STRATEGIES[index % 4],
        "clusterAffinities": [
            {"affinityName": "primary", "labelSelector": {"matchLabels": {"env": "prod", "tier": str(index % 5)}}},
            {"affinityName": "backup", "fieldSelector": {"matchExpressions": backup}},
        ],
    }
    if index % 3 == 0:
        placement["spreadConstraints"] = [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 5}]
    return _as_binding(f"w{index}", 20 + index, placement)


def _as_binding(name: str, replicas: int, placement: dict[str, Any]) -> Binding:
    raw = {
        "metadata": {"name": f"{name}-deployment"},
        "spec": {
            "resource": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "namespace": "default",
                "name": name,
                "uid": name,
            },
            "replicas": replicas,
            "replicaRequirements": {"resourceRequest": {"cpu": "500m", "memory": "1Gi"}},
            "placement": placement,
        },
    }
    return convert(Binding, raw)
