"""Random clusters and random bindings, within what the scheduler of Karmada accepts."""

import random
from typing import Any, Final

from acceptance.scenes import OWN_TAINT, Scene
from decisions import AGGREGATED, DUPLICATED, DYNAMIC
from kube_store import JSON

REGIONS: Final = ("north", "south", "west")
PROVIDERS: Final = ("p1", "p2")
ONE_CLUSTER: Final = [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]
_TOLERATED: Final = [{"key": OWN_TAINT, "operator": "Exists"}]


def random_cluster(chance: random.Random, scene: Scene, short: str) -> JSON:
    return scene.cluster(
        short,
        cpu=chance.choice((0, 2, 5, 20, 60)),
        spec={"region": chance.choice(REGIONS), "provider": chance.choice(PROVIDERS), "zones": [chance.choice("ab")]},
        taints=[{"key": "busy", "effect": "NoSchedule"}] if chance.random() < 0.2 else [],
        tier=chance.choice(("gold", "silver")),
    )


def random_binding(chance: random.Random, scene: Scene, name: str, clusters: list[str]) -> JSON:
    """Return a binding that no detector made, with a random placement over clusters with these short names."""
    namespace = scene.plane.namespace
    uid = f"{chance.getrandbits(128):032x}"
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {
            "name": f"{name}-deployment",
            "namespace": namespace,
            "labels": {
                "propagationpolicy.karmada.io/permanent-id": scene.plane.prefix.strip("-"),
                "resourcebinding.karmada.io/permanent-id": uid,
            },
        },
        "spec": {
            "resource": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "namespace": namespace,
                "name": name,
                "uid": uid,
            },
            "replicas": chance.choice((0, 1, 2, 3, 5, 8, 13, 40)),
            "replicaRequirements": {"resourceRequest": {"cpu": chance.choice(("100m", "500m", "1", "3"))}},
            "placement": _placement(chance, scene, clusters),
        },
    }


def with_components(chance: random.Random, binding: JSON) -> JSON:
    """Return a binding of a workload with one to three pod templates. Most such workloads go to one cluster."""
    spec = without_replicas(binding)
    if chance.random() < 0.8:
        spec["placement"] = {**spec["placement"], "spreadConstraints": ONE_CLUSTER}
    spec["components"] = [_component(chance, f"template-{number}") for number in range(chance.randint(1, 3))]
    return {**binding, "spec": spec}


def without_replicas(binding: JSON) -> JSON:
    return {key: value for key, value in binding["spec"].items() if key not in {"replicas", "replicaRequirements"}}


def _component(chance: random.Random, name: str) -> JSON:
    amount = {"cpu": chance.choice(("100m", "1", "3")), "memory": chance.choice(("100Mi", "4Gi", "60Gi"))}
    return {
        "name": name,
        "replicas": chance.choice((0, 1, 2, 5, 12)),
        "replicaRequirements": {"resourceRequest": amount},
    }


def _placement(chance: random.Random, scene: Scene, clusters: list[str]) -> JSON:
    strategy = _strategy(chance, scene, clusters)
    placement: JSON = {"replicaScheduling": strategy, "clusterTolerations": list(_TOLERATED)}
    if chance.random() < 0.3:
        placement["clusterTolerations"].append({"key": "busy", "operator": "Exists"})
    if chance.random() < 0.5:
        placement["clusterAffinity"] = _affinity(chance, scene, clusters)
    else:
        groups = [
            {"affinityName": f"g{number}", **_affinity(chance, scene, clusters)}
            for number in range(chance.randint(1, 3))
        ]
        if _may_overflow(strategy) and chance.random() < 0.4:
            groups[0]["overflowAffinities"] = [{"affinityName": "more", **_affinity(chance, scene, clusters)}]
        placement["clusterAffinities"] = groups
    if chance.random() < 0.4:
        placement["spreadConstraints"] = _constraints(chance)
    return placement


def _affinity(chance: random.Random, scene: Scene, clusters: list[str]) -> JSON:
    own = {"suite": scene.plane.prefix.strip("-")}
    kind = chance.randrange(4)
    if kind == 0:
        some = chance.sample(clusters, chance.randint(1, len(clusters)))
        return {"clusterNames": [scene.name(each) for each in some]}
    affinity: JSON = {"labelSelector": {"matchLabels": own}}
    if kind == 1:
        affinity["labelSelector"]["matchLabels"] = {**own, "tier": chance.choice(("gold", "silver"))}
    elif kind == 2:
        region = {"key": "region", "operator": chance.choice(("In", "NotIn")), "values": [chance.choice(REGIONS)]}
        affinity["fieldSelector"] = {"matchExpressions": [region]}
    else:
        affinity["exclude"] = [scene.name(chance.choice(clusters))]
    return affinity


def _strategy(chance: random.Random, scene: Scene, clusters: list[str]) -> JSON:
    weights = [
        {"targetCluster": {"clusterNames": [scene.name(each)]}, "weight": chance.randint(1, 5)}
        for each in chance.sample(clusters, min(3, len(clusters)))
    ]
    static = {**DYNAMIC, "weightPreference": {"staticWeightList": weights}}
    return dict(chance.choice((DYNAMIC, AGGREGATED, DUPLICATED, static)))


def _may_overflow(strategy: JSON) -> bool:
    weights: Any = strategy.get("weightPreference") or {}
    return strategy == AGGREGATED or "dynamicWeight" in weights


def _constraints(chance: random.Random) -> list[JSON]:
    least = chance.randint(1, 3)
    by_cluster = {"spreadByField": "cluster", "minGroups": least, "maxGroups": least + chance.randint(0, 2)}
    if chance.random() < 0.5:
        return [by_cluster]
    regions = chance.randint(1, 2)
    return [{"spreadByField": "region", "minGroups": regions, "maxGroups": regions + chance.randint(0, 1)}, by_cluster]
