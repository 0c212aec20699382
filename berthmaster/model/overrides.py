"""OverridePolicies: which resources they select, and what they change of them.

An override changes the copies that clusters run. Karmada's schedulers never read it, so that it changes no placement.
Karmada decides the replicas of each copy before overrides, which may set others (karmada ``pkg/util/overridemanager``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from berthmaster.model.affinity import AffinityTerm, ClusterAffinity
from berthmaster.model.claims import MatchLevel, match_level
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert, mapping_of
from berthmaster.model.errors import FieldError
from berthmaster.model.meta import object_name
from berthmaster.model.policy import ResourceSelector
from berthmaster.model.replicas import BUILT_IN_REPLICA_PATHS, THIRD_PARTY_REPLICA_PATHS, Template

OVERRIDE_KINDS: Final = ("OverridePolicy", "ClusterOverridePolicy")
_REPLICAS: Final = "/spec/replicas"
_PARALLELISM: Final = "/spec/parallelism"
_COUNTED_BY: Final = {
    (each.api_version, each.kind): f"/{each.replicas.replace('.', '/')}"
    for each in (*BUILT_IN_REPLICA_PATHS, *THIRD_PARTY_REPLICA_PATHS)
}
"""The field that has the replicas of a kind. That of other kinds is ``/spec/replicas``."""
_IMAGE: Final = "/image"
_CLUSTER_SCOPED: Final = OVERRIDE_KINDS[1]


class OverrideEffect(Enum):
    """What an override changes of a copy, in the order in which it matters."""

    REPLICAS = "replicas"
    IMAGES = "images"
    OTHERS = "others"


class ReplicasOverride(NamedTuple):
    """The replicas that an override sets.

    Attributes:
        value: the number; None if it is no number.
        clusters: the clusters that it names; empty if it selects them in another way, or all.
        term: the clusters that it selects; None for all.
        path: the field that it sets.
    """

    value: int | None
    clusters: tuple[str, ...]
    term: AffinityTerm | None = None
    path: str = _REPLICAS


class OverridePolicy(NamedTuple):
    """An OverridePolicy or ClusterOverridePolicy, as far as answers name it.

    Attributes:
        namespace: that of the resources that it can select; empty for all.
        selectors: the resources that it selects; empty for all.
    """

    name: str
    namespace: str
    selectors: tuple[ResourceSelector, ...]
    effect: OverrideEffect
    replicas: tuple[ReplicasOverride, ...]

    @property
    def cluster_scoped(self) -> bool:
        return self.name.startswith(_CLUSTER_SCOPED)

    def selects(self, template: Template) -> bool:
        return self.match(template) is not None

    def match(self, template: Template) -> MatchLevel | None:
        """Return how closely it selects a resource; None if it does not. One without selectors selects all."""
        if self.namespace not in {"", template.namespace}:
            return None
        if not self.selectors:
            return MatchLevel.KIND
        return max(match_level(each, template) for each in self.selectors) or None


def override_policy(raw: Mapping[str, Any]) -> OverridePolicy:
    """Return what an object says. Parts that are invalid count as absent: an API server refuses such an object."""
    metadata, spec = mapping_of(raw.get("metadata")), mapping_of(raw.get("spec"))
    kind, namespace = str(raw.get("kind")), str(metadata.get("namespace") or "")
    scope = "" if kind == _CLUSTER_SCOPED else namespace
    replicas, effect = [], OverrideEffect.OTHERS
    for rule in (spec, *map(mapping_of, _list(spec.get("overrideRules")))):
        overriders = mapping_of(rule.get("overriders"))
        for each in map(mapping_of, _list(overriders.get("plaintext"))):
            path, value = str(each.get("path")), each.get("value")
            if path in {_REPLICAS, _PARALLELISM}:
                number = value if isinstance(value, int) and not isinstance(value, bool) else None
                # Without the field, the API server of a member takes its default.
                number = 1 if each.get("operator") == "remove" else number
                target = rule.get("targetCluster")
                named = _list(mapping_of(target).get("clusterNames"))
                replicas.append(ReplicasOverride(number, tuple(map(str, named)), _term(target), path))
            elif path.endswith(_IMAGE):
                effect = OverrideEffect.IMAGES
        if overriders.get("imageOverrider"):
            effect = OverrideEffect.IMAGES
    name = f"{kind} {object_name(scope, str(metadata.get('name')))}"
    selectors = tuple(_selectors(_list(spec.get("resourceSelectors"))))
    found = OverrideEffect.REPLICAS if replicas else effect
    return OverridePolicy(name, scope, selectors, found, tuple(replicas))


def replica_overrides(objects: Iterable[Mapping[str, Any]]) -> tuple[OverridePolicy, ...]:
    """Return the overrides among objects that set replicas."""
    found = (override_policy(each) for each in objects if each.get("kind") in OVERRIDE_KINDS)
    return tuple(each for each in found if each.replicas)


def replicas_set(
    policies: Iterable[OverridePolicy], template: Template, clusters: Mapping[str, Cluster]
) -> dict[str, int]:
    """Return the replicas that overrides set for the copies of a resource, by cluster. They set none on the others.

    Of several overrides the last one counts: cluster-scoped ones come first, then the less specific ones (karmada
    ``getOverridersFromOverridePolicies``). A value that is no number makes the replicas unknown, as if none were set.
    """
    path = _COUNTED_BY.get((template.api_version, template.kind), _REPLICAS)
    rules = [rule for each in _in_order(policies, template) for rule in each.replicas if rule.path == path]
    found = {}
    for name, cluster in clusters.items() if rules else ():
        values = [each.value for each in rules if each.term is None or each.term.matches(cluster)]
        if values and (last := values[-1]) is not None:
            found[name] = last
    return found


def _in_order(policies: Iterable[OverridePolicy], template: Template) -> Sequence[OverridePolicy]:
    matching = [(each, level) for each in policies if (level := each.match(template)) is not None]
    matching.sort(key=lambda pair: (not pair[0].cluster_scoped, pair[1], pair[0].name))
    # For a resource without a namespace, Karmada reads cluster-scoped overrides only.
    return [each for each, _ in matching if each.cluster_scoped or template.namespace]


def _term(target: object) -> AffinityTerm | None:
    """Return the clusters that a rule selects; None for all."""
    if not isinstance(target, Mapping):
        return None
    try:
        return AffinityTerm(convert(ClusterAffinity, target))
    except FieldError:
        return AffinityTerm(ClusterAffinity(cluster_names=("",)))  # none


def _selectors(written: list[Any]) -> Iterator[ResourceSelector]:
    for each in written:
        try:
            yield convert(ResourceSelector, each)
        except FieldError:
            continue


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
