"""A believable fleet of any size, for ``scale.py``: each object is made when it is asked for, as bytes of JSON.

Few policies hold many workloads and many hold one. A fifth of the workloads is divided over 10 to 40 clusters, 3 % fit
no cluster, and the rest has one to three clusters. Objects have the fields that Karmada's webhooks and controllers
write. One cluster has ``PINNED`` workloads at every size.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

from controllers import modeled
from controllers_memory import dressed, reported
from workloads import generated_fleet

from berthmaster.model.decode import builtins, encode_json

PINNED: Final = 60
PINNED_CLUSTER: Final = "member00007"
SCHEDULER: Final = "berthmaster"
_WIDE: Final = 0.2
_FAILING: Final = 0.03
_LARGEST: Final = 20_000
_TAINTS: Final = [
    {"key": f"cluster.karmada.io/{each}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for each in ("not-ready", "unreachable")
]
_DYNAMIC: Final = {
    "replicaSchedulingType": "Divided",
    "replicaDivisionPreference": "Weighted",
    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
}
_AGGREGATED: Final = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
_NONE: Final[Mapping[str, str]] = {}
_TIME: Final = "2026-01-01T00:00:00Z"


class ScaleFleet:
    """The objects of a control plane with so many bindings and clusters.

    Attributes:
        size: the number of bindings.
        names: the names of the clusters.
        policy_of: the number of the policy of each binding.
        shapes: what each policy asks for: ``wide``, ``failing``, ``groups`` or ``few``.
    """

    def __init__(self, bindings: int, clusters: int) -> None:
        draw = random.Random(7)
        self.size, self._draw = bindings, draw
        self._clusters = generated_fleet(1, clusters).clusters
        self.names = [each.name for each in self._clusters]
        largest = min(_LARGEST, max(1, bindings // 5))
        sizes = [largest]
        while sum(sizes) < bindings:
            sizes.append(min(bindings - sum(sizes), largest, int(draw.paretovariate(0.8))))
        self.policy_of = [policy for policy, size in enumerate(sizes) for _ in range(size)]
        self.shapes = ["groups"] + ["few"] * (len(sizes) - 1)
        for shape, share in (("wide", _WIDE), ("failing", _FAILING)):
            wanted = int(share * bindings)
            for policy in range(len(sizes) - 1, 0, -1):
                if self.shapes[policy] == "few" and 0 < sizes[policy] <= wanted:
                    self.shapes[policy], wanted = shape, wanted - sizes[policy]
        self._placements = [encode_json(self._placement(policy, shape)) for policy, shape in enumerate(self.shapes)]

    def namespace(self, policy: int) -> str:
        """Return the namespace of a policy: a third of the policies share one."""
        return f"team-{policy % 3 and policy}"

    def key(self, number: int) -> tuple[str, str]:
        """Return the key of a binding."""
        return self.namespace(self.policy_of[number]), f"service-{number}-deployment"

    def cluster(self, number: int, *, used: int = 0, ready: bool = True, labels: Mapping[str, str] = _NONE) -> bytes:
        """Return a cluster; ``used`` changes its allocated amounts."""
        raw = dressed(modeled({**builtins(self._clusters[number]), "kind": "Cluster"}))
        raw |= {"apiVersion": "cluster.karmada.io/v1alpha1"}
        raw["metadata"]["labels"] = {**raw["metadata"]["labels"], **labels}
        raw["status"]["conditions"] = [{"type": "Ready", "status": str(ready), "lastTransitionTime": _TIME}]
        raw["status"]["resourceSummary"]["allocated"]["cpu"] = f"{1000 + used}m"
        return encode_json(raw)

    def clusters(self) -> Iterator[bytes]:
        """Yield all clusters."""
        return (self.cluster(number) for number in range(len(self.names)))

    def assigned(self, number: int) -> dict[str, int]:
        """Return where a binding is, as if it were scheduled long ago."""
        shape = self.shapes[self.policy_of[number]]
        if shape == "failing":
            return {}
        others = (10 + number % 31) if shape == "wide" else 1 + number % 3
        step = 1 + number % 97
        start = number * 7919
        found = [self.names[(start + each * step) % len(self.names)] for each in range(others)]
        chosen = {name: 2 for name in found if name != PINNED_CLUSTER} or {self.names[0]: 2}
        return {**chosen, PINNED_CLUSTER: 2} if number % max(1, self.size // PINNED) == 0 else chosen

    def binding(
        self, number: int, assignment: Mapping[str, int], *, version: int = 1, stored: str = "", reports: bool = False
    ) -> bytes:
        """Return a binding with an assignment, and with the reports of its members or without.

        Args:
            version: the generation.
            stored: the resource version; one that follows from the generation by default.
        """
        policy = self.policy_of[number]
        namespace, name = self.key(number)
        targets = [{"name": each, "replicas": replicas} for each, replicas in assignment.items()]
        applied = {"policy.karmada.io/applied-placement": self._placements[policy].decode()} if targets else {}
        condition = {"type": "Scheduled", "status": "True", "reason": "Success", "lastTransitionTime": _TIME}
        shape = self.shapes[policy]
        group = {"schedulerObservingAffinityName": "primary"} if shape == "groups" else {}
        status = {
            "schedulerObservedGeneration": version, "lastScheduledTime": _TIME, **group,
            "conditions": [condition | {"message": "Binding has been scheduled successfully."}],
        }  # fmt: skip
        if reports:
            full = {"type": "FullyApplied", "status": "True", "reason": "FullyAppliedSuccess"}
            status["conditions"] += [{**full, "lastTransitionTime": _TIME, "message": "All works have been applied"}]
            status["aggregatedStatus"] = reported(targets)
        fixed = {
            "apiVersion": "work.karmada.io/v1alpha2",
            "kind": "ResourceBinding",
            "metadata": {
                "name": name, "namespace": namespace, "uid": f"1a2b3c4d-0000-4000-8000-{number:012}",
                "resourceVersion": stored or str(1_000_000 + number + version * self.size), "generation": version,
                "creationTimestamp": _TIME,
                "labels": {
                    "propagationpolicy.karmada.io/permanent-id": f"9f8e7d6c-0000-4000-8000-{policy:012}",
                    "resourcebinding.karmada.io/permanent-id": f"5a5b5c5d-0000-4000-8000-{number:012}",
                },
                "annotations": {
                    "policy.karmada.io/generation": "1", "propagationpolicy.karmada.io/name": f"policy-{policy}",
                    "propagationpolicy.karmada.io/namespace": namespace, **applied,
                },
                "finalizers": ["karmada.io/binding-controller", "karmada.io/binding-dependencies-distributor"],
                "ownerReferences": [self._owner(number)],
            },
            "spec": {
                "conflictResolution": "Abort",
                "placement": None,
                "replicaRequirements": {
                    "namespace": namespace, "resourceRequest": {"cpu": f"{100 * (1 + policy % 8)}m", "memory": "256Mi"}
                },
                "replicas": sum(assignment.values()) or (60 if shape == "wide" else 3),
                "resource": {
                    "apiVersion": "apps/v1", "kind": "Deployment", "name": f"service-{number}",
                    "namespace": namespace, "uid": f"0f0e0d0c-0000-4000-8000-{number:012}", "resourceVersion": "77",
                },
                "schedulerName": SCHEDULER,
                **({"clusters": targets} if targets else {}),
            },
            **({"status": status} if targets else {}),
        }  # fmt: skip
        return encode_json(fixed).replace(b'"placement":null', b'"placement":' + self._placements[policy], 1)

    def policies(self) -> Iterator[bytes]:
        """Yield all policies. Each selects a label of its own."""
        for policy in range(len(self.shapes)):
            yield self.policy(policy)

    def policy(self, number: int, clusters: int = 3) -> bytes:
        """Return a policy. ``clusters`` is how many a policy of few clusters names."""
        selected = {"apiVersion": "apps/v1", "kind": "Deployment"}
        placement = self._placement(number, self.shapes[number], clusters)
        return encode_json({
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "PropagationPolicy",
            "metadata": {
                "name": f"policy-{number}", "namespace": self.namespace(number), "generation": 1,
                "labels": {"propagationpolicy.karmada.io/permanent-id": f"9f8e7d6c-0000-4000-8000-{number:012}"},
            },
            "spec": {
                "resourceSelectors": [{**selected, "labelSelector": {"matchLabels": {"policy": f"p{number}"}}}],
                "placement": placement, "schedulerName": SCHEDULER, "conflictResolution": "Abort",
            },
        })  # fmt: skip

    def everything(self) -> dict[str, Any]:
        """Return a policy that claims all workloads, once the others are deleted."""
        selector = {"apiVersion": "apps/v1", "kind": "Deployment"}
        placement = {"clusterAffinity": _labelled(env="prod"), "replicaScheduling": _DYNAMIC}
        return {
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
            "metadata": {"name": "everything"},
            "spec": {"resourceSelectors": [selector], "placement": placement, "schedulerName": SCHEDULER},
        }  # fmt: skip

    def template(self, number: int) -> bytes:
        """Return the Deployment of a binding, with environment and probes as people write them."""
        policy, (namespace, _) = self.policy_of[number], self.key(number)
        labels = {"app": f"service-{number}", "policy": f"p{policy}"}
        container = {
            "name": "app", "image": f"registry.example/service-{number}:v1",
            "env": [{"name": f"VARIABLE_{each}", "value": "x" * 40} for each in range(20)],
            "ports": [{"containerPort": 8080, "protocol": "TCP"}],
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10},
            "resources": {"requests": {"cpu": f"{100 * (1 + policy % 8)}m", "memory": "256Mi"}},
        }  # fmt: skip
        claim = {"propagationpolicy.karmada.io/permanent-id": f"9f8e7d6c-0000-4000-8000-{policy:012}"}
        named = {"propagationpolicy.karmada.io/name": f"policy-{policy}"}
        return encode_json({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": f"service-{number}", "namespace": namespace, "uid": f"0f0e0d0c-0000-4000-8000-{number:012}",
                "resourceVersion": "77", "labels": {**labels, **claim},
                "annotations": {**named, "propagationpolicy.karmada.io/namespace": namespace},
            },
            "spec": {
                "replicas": sum(self.assigned(number).values()) or 3,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        })  # fmt: skip

    def _owner(self, number: int) -> dict[str, Any]:
        uid = f"0f0e0d0c-0000-4000-8000-{number:012}"
        return {
            "apiVersion": "apps/v1", "kind": "Deployment", "name": f"service-{number}", "uid": uid,
            "blockOwnerDeletion": True, "controller": True,
        }  # fmt: skip

    def _placement(self, policy: int, shape: str, clusters: int = 3) -> dict[str, Any]:
        base: dict[str, Any] = {"clusterTolerations": _TAINTS, "replicaScheduling": _DYNAMIC}
        spread = [{"spreadByField": "cluster", "minGroups": 10, "maxGroups": 10 + policy % 31}]
        match shape:
            case "wide":
                return {**base, "clusterAffinity": _labelled(env="prod"), "spreadConstraints": spread}
            case "failing":
                return {**base, "clusterAffinity": _labelled(env="nowhere")}
            case "groups":
                groups = [{"affinityName": "primary", **_labelled(env="prod", tier=f"{policy % 5}")}]
                groups.append({"affinityName": "backup", **_labelled(env="stage")})
                return {**base, "clusterAffinities": groups, "replicaScheduling": _AGGREGATED}
        # Names at random: few placements are equal.
        names = random.Random(policy).sample(self.names, min(clusters, len(self.names)))
        return {**base, "clusterAffinity": {"clusterNames": names}, "replicaScheduling": _AGGREGATED}


def _labelled(**labels: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": labels}}
