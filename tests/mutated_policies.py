"""Policies with one to three random mistakes, made from complete ones. The schemas play no part in it."""

import random
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

_SELECTOR: Final = {
    "matchLabels": {"tier": "gold"},
    "matchExpressions": [{"key": "env", "operator": "In", "values": ["prod"]}],
}
_FIELDS: Final = {"matchExpressions": [{"key": "region", "operator": "In", "values": ["eu"]}]}
_AFFINITY: Final = {"labelSelector": _SELECTOR, "fieldSelector": _FIELDS, "clusterNames": ["m1"], "exclude": ["m2"]}
_PRESERVED: Final = {"rules": [{"aliasLabelName": "a", "jsonPath": "{.a}"}]}
_METADATA: Final = {
    "name": "web",
    "labels": {"app": "web"},
    "annotations": {"example.io/note": "a"},
    "finalizers": ["example.io/hold"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b", "controller": True}],
}
_KARMADA: Final = {
    "resourceSelectors": [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop", "labelSelector": _SELECTOR}
    ],
    "association": False,
    "propagateDeps": True,
    "priority": 3,
    "preemption": "Always",
    "dependentOverrides": ["a"],
    "schedulerName": "default-scheduler",
    "conflictResolution": "Overwrite",
    "activationPreference": "Lazy",
    "preserveResourcesOnDeletion": True,
    "schedulePriority": {"priorityClassSource": "KubePriorityClass", "priorityClassName": "high"},
    "suspension": {"dispatching": True, "dispatchingOnClusters": {"clusterNames": ["m1"]}},
    "failover": {
        "application": {
            "decisionConditions": {"tolerationSeconds": 30},
            "purgeMode": "Gracefully",
            "gracePeriodSeconds": 60,
            "statePreservation": _PRESERVED,
        },
        "cluster": {"purgeMode": "Directly", "statePreservation": _PRESERVED},
    },
    "placement": {
        "clusterAffinity": _AFFINITY,
        "clusterAffinities": [
            {"affinityName": "a", **_AFFINITY, "overflowAffinities": [{"affinityName": "b", **_AFFINITY}]}
        ],
        "clusterTolerations": [
            {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}
        ],
        "spreadConstraints": [
            {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2},
            {"spreadByLabel": "x", "minGroups": 1},
        ],
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {
                "dynamicWeight": "AvailableReplicas",
                "staticWeightList": [{"targetCluster": _AFFINITY, "weight": 2}],
            },
        },
        "workloadAffinity": {"affinity": {"groupByLabelKey": "a"}, "antiAffinity": {"groupByLabelKey": "b"}},
    },
}
_EXPRESSION: Final = {"key": "metadata.name", "operator": "In", "values": ["m1"]}
_KUBEADMIRAL: Final = {
    "schedulingProfile": "p",
    "schedulingMode": "Divide",
    "maxClusters": 3,
    "clusterSelector": {"tier": "gold"},
    "clusterAffinity": [{"matchExpressions": [_EXPRESSION], "matchFields": [_EXPRESSION]}],
    "tolerations": _KARMADA["placement"]["clusterTolerations"],  # type: ignore[index]
    "placement": [
        {"cluster": "m1", "preferences": {"minReplicas": 1, "maxReplicas": 9, "weight": 5, "priority": 2}}
    ],
    "disableFollowerScheduling": False,
    "autoMigration": {"when": {"podUnschedulableFor": "90s"}, "keepUnschedulableReplicas": True},
    "replicasStrategy": "Binpack",
    "reschedulePolicy": {
        "disableRescheduling": False,
        "rescheduleWhen": {"policyContentChanged": True, "clusterJoined": False, "clusterLabelsChanged": True},
        "replicaRescheduling": {"avoidDisruption": False},
    },
}  # fmt: skip
_REBALANCER: Final = {
    "workloads": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}],
    "ttlSecondsAfterFinished": 5,
}
_MEMBER: Final = {
    "apiEndpoint": "https://m1",
    "insecure": False,
    "useServiceAccount": True,
    "secretRef": {"name": "m1"},
    "taints": [{"key": "a", "value": "b", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
}
COMPLETE: Final = tuple(
    {"apiVersion": api_version, "kind": kind, "metadata": deepcopy(_METADATA), "spec": deepcopy(spec)}
    for api_version, kind, spec in (
        ("policy.karmada.io/v1alpha1", "PropagationPolicy", _KARMADA),
        ("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy", _KARMADA),
        ("core.kubeadmiral.io/v1alpha1", "PropagationPolicy", _KUBEADMIRAL),
        ("core.kubeadmiral.io/v1alpha1", "ClusterPropagationPolicy", _KUBEADMIRAL),
        ("core.kubeadmiral.io/v1alpha1", "FederatedCluster", _MEMBER),
        ("apps.karmada.io/v1alpha1", "WorkloadRebalancer", _REBALANCER),
    )
)
_SCALARS: Final = (
    None, True, False, -1, 0, 1, 2, 31, 2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1, 2**63, 10**30, 1.0, 1.5, "", "a",
    "A", "Web", "a b", "web-", "a/b", "EXAMPLE.io/a", "a" * 32, "é" * 32, "a" * 33, "a" * 63, "a" * 64, "a" * 254,
    "90", "2 weeks", "-5s", "1h30m", "Always", "always", "Lazy", "Never", "Gracefully", "Binpack", "zone", "2026-01-01",
    "2026-02-30T00:00:00Z", "2026-01-01T00:00:00.5+02:00", [], {}, [None], [{}], {"a": None}, {"a": 1}, ["a"], [1],
)  # fmt: skip


def mutated_policies(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield objects with one to three random changes, most of them mistakes."""
    chance = random.Random(seed)
    for index in range(count):
        made = deepcopy(COMPLETE[index % len(COMPLETE)])
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            _change(made, chance)
        yield made


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    entries = value.items() if isinstance(value, Mapping) else enumerate(value if isinstance(value, list) else ())
    for key, each in entries:
        yield value, key
        yield from _places(each)


def _change(made: dict[str, Any], chance: random.Random) -> None:
    places = [(holder, key) for holder, key in _places(made) if key not in ("apiVersion", "kind") or holder is not made]
    if not places:
        return
    holder, key = chance.choice(places)
    match chance.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[chance.choice((f"{key}s", str(key)[:-1], str(key).upper(), "rackAwareness"))] = holder.pop(key)
        case 2 if isinstance(holder, dict):
            holder["other"] = chance.choice(_SCALARS)
        case _:
            holder[key] = deepcopy(chance.choice(_SCALARS))
