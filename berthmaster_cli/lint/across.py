"""Checks across objects: clusters that do not exist, resources that two policies name, objects that appear twice."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, TypeVar

from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError, name_list
from berthmaster.model.kinds import group_of, is_namespaced
from berthmaster.model.kubeadmiral import KubeAdmiralPolicy
from berthmaster.model.policy import POLICY_KINDS, ClusterAffinity, Policy
from berthmaster_cli.lint.sources import SourceObject
from webhook.admission.outcome import ABSENT, FieldProblem, bounded

CLUSTER_UNKNOWN: Final = "cluster-unknown"
CLAIMED_TWICE: Final = "claimed-twice"
DEFINED_TWICE: Final = "defined-twice"
_KARMADA: Final = "policy.karmada.io"
_KUBEADMIRAL: Final = "core.kubeadmiral.io"
_CLUSTERS: Final = frozenset({("cluster.karmada.io", "Cluster"), (_KUBEADMIRAL, "FederatedCluster")})
_HINTS: Final = 20
_Resource = tuple[str, str, str, str]
P = TypeVar("P", Policy, KubeAdmiralPolicy)


ACROSS_RULES: Final = {
    CLUSTER_UNKNOWN: "A cluster name that no Cluster or FederatedCluster of the input has.",
    CLAIMED_TWICE: "Two policies of one kind and priority that name the same resource.",
    DEFINED_TWICE: "A policy that the input defines more than once.",
}
"""The rules of lint that need all objects of the input. The webhook does not have them. The default level is warn."""


@dataclass(slots=True)
class Across:
    """Collects objects, then checks them together. Linear in the number of objects and names."""

    default_namespace: str
    _clusters: set[str] = field(default_factory=set)
    _policies: list[SourceObject] = field(default_factory=list)
    _first: dict[tuple[str, str, str, str], SourceObject] = field(default_factory=dict)
    _repeated: list[tuple[SourceObject, SourceObject]] = field(default_factory=list)

    def add(self, found: SourceObject) -> None:
        group, kind = group_of(found.raw["apiVersion"]), found.raw["kind"]
        if (group, kind) in _CLUSTERS:
            self.add_cluster(found)
        if group not in {_KARMADA, _KUBEADMIRAL} or kind not in POLICY_KINDS:
            return
        self._policies.append(found)
        if not found.metadata.get("name"):
            return  # the API server generates a new name each time
        first = self._first.setdefault((group, kind, self._namespace(found), found.name), found)
        if first is not found:
            self._repeated.append((found, first))

    def add_cluster(self, found: SourceObject) -> None:
        """Add an object of the fleet that is not checked itself."""
        if (group_of(found.raw["apiVersion"]), found.raw["kind"]) in _CLUSTERS:
            self._clusters.add(found.name)

    def problems(self) -> Iterator[tuple[SourceObject, FieldProblem]]:
        for found, first in self._repeated:
            place = f"{first.source}:{first.line('metadata.name')}"
            fault = f"{place} defines the same object; the one that is applied last wins"
            yield found, FieldProblem("metadata.name", ABSENT, fault, "remove one of them", DEFINED_TWICE)
        if self._clusters:
            yield from self._unknown_clusters()
        yield from self._claimed_twice()

    def _unknown_clusters(self) -> Iterator[tuple[SourceObject, FieldProblem]]:
        known = sorted(self._clusters)
        remedies: dict[str, str] = {}

        def problems(policy: SourceObject) -> Iterator[FieldProblem]:
            for path, name in _named_clusters(policy):
                if name in self._clusters:
                    continue
                if name not in remedies:
                    # Similar names take time proportional to the fleet, so only the first names get them.
                    remedies[name] = _remedy(name, known if len(remedies) < _HINTS else ())
                yield FieldProblem(path, name, "the fleet has no cluster of this name", remedies[name])

        for found in self._policies:
            yield from ((found, each) for each in bounded(problems(found), CLUSTER_UNKNOWN))

    def _claimed_twice(self) -> Iterator[tuple[SourceObject, FieldProblem]]:
        claimed: dict[tuple[str, str, int, _Resource], list[tuple[str, SourceObject]]] = defaultdict(list)
        for found in self._policies:
            policy = _decoded(Policy, found) if group_of(found.raw["apiVersion"]) == _KARMADA else None
            if policy is None:
                continue
            scope = self._namespace(found)
            for index, selector in enumerate(policy.spec.resource_selectors):
                if not selector.name:
                    continue
                resource = (selector.api_version, selector.kind, selector.namespace or scope, selector.name)
                key = (policy.kind, scope, policy.explicit_priority, resource)
                claimed[key].append((f"spec.resourceSelectors[{index}]", found))
        for (*_, resource), claims in claimed.items():
            first = min((found for _, found in claims), key=lambda found: found.name)
            for path, found in claims:
                if self._identity(found) != self._identity(first):
                    yield found, _claimed_already(path, found, first, resource)

    def _identity(self, found: SourceObject) -> tuple[str, str]:
        return self._namespace(found), found.name

    def _namespace(self, found: SourceObject) -> str:
        if not is_namespaced(found.raw["apiVersion"], found.raw["kind"]):
            return ""
        return found.namespace or self.default_namespace


def _claimed_already(path: str, found: SourceObject, first: SourceObject, resource: _Resource) -> FieldProblem:
    _, kind, namespace, name = resource
    named = "/".join(filter(None, (namespace, name)))
    fault = (
        f"{first.raw['kind']} {first.name!r} ({first.source}:{first.line('metadata.name')}) names {kind} {named} with "
        f"the same priority; of the two, Karmada prefers {min(found.name, first.name)!r} by its name"
    )
    return FieldProblem(
        path, ABSENT, fault, "give one of them a higher priority, or remove the selector", CLAIMED_TWICE
    )


def _remedy(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]}?"
    return f"known are {name_list(known)}" if known else "correct it, or add the cluster to the fleet"


def _named_clusters(found: SourceObject) -> Iterator[tuple[str, str]]:
    """Yield every cluster name of a policy with its path. Nothing for a policy that cannot be decoded."""
    if group_of(found.raw["apiVersion"]) == _KUBEADMIRAL:
        federated = _decoded(KubeAdmiralPolicy, found)
        for index, entry in enumerate((federated.spec.placement or ()) if federated is not None else ()):
            yield f"spec.placement[{index}].cluster", entry.cluster
        return
    policy = _decoded(Policy, found)
    if policy is None:
        return
    placement = policy.spec.placement
    if placement.cluster_affinity is not None:
        yield from _names("spec.placement.clusterAffinity", placement.cluster_affinity)
    for index, group in enumerate(placement.cluster_affinities or ()):
        path = f"spec.placement.clusterAffinities[{index}]"
        yield from _names(path, group)
        for place, overflow in enumerate(group.overflow_affinities or ()):
            yield from _names(f"{path}.overflowAffinities[{place}]", overflow)
    strategy = placement.replica_scheduling
    weights = strategy.weight_preference if strategy is not None else None
    for index, weight in enumerate(weights.static_weight_list if weights is not None else ()):
        path = f"spec.placement.replicaScheduling.weightPreference.staticWeightList[{index}].targetCluster"
        yield from _names(path, weight.target_cluster)


def _names(path: str, affinity: ClusterAffinity) -> Iterator[tuple[str, str]]:
    for field_name, names in (("clusterNames", affinity.cluster_names), ("exclude", affinity.exclude)):
        for index, name in enumerate(names):
            yield f"{path}.{field_name}[{index}]", name


def _decoded(kind: type[P], found: SourceObject) -> P | None:
    try:
        return convert(kind, found.raw)
    except FieldError:
        return None
