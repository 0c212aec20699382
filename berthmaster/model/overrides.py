"""OverridePolicies: which resources they select, and what they change of them.

An override changes the copies that clusters run. Karmada's schedulers never read it, so that it changes no placement.
Karmada decides the replicas of each copy before overrides, which may set others (karmada ``pkg/util/overridemanager``).
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from berthmaster.model.claims import match_level
from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError
from berthmaster.model.policy import ResourceSelector
from berthmaster.model.replicas import Template

_REPLICAS: Final = "/spec/replicas"
_IMAGE: Final = "/image"
_CLUSTER_SCOPED: Final = "ClusterOverridePolicy"


class OverrideEffect(Enum):
    """What an override changes of a copy, in the order in which it matters."""

    REPLICAS = "replicas"
    IMAGES = "images"
    OTHERS = "others"


class ReplicasOverride(NamedTuple):
    """The replicas that an override sets.

    Attributes:
        value: the number; None if it is removed or no number.
        clusters: the clusters that it names; empty if it selects them in another way, or all.
    """

    value: int | None
    clusters: tuple[str, ...]


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

    def selects(self, template: Template) -> bool:
        if self.namespace not in {"", template.namespace}:
            return False
        return not self.selectors or any(match_level(each, template) for each in self.selectors)


def override_policy(raw: Mapping[str, Any]) -> OverridePolicy:
    """Return what an object says. Parts that are invalid count as absent: an API server refuses such an object."""
    metadata, spec = _mapping(raw.get("metadata")), _mapping(raw.get("spec"))
    kind, namespace = str(raw.get("kind")), str(metadata.get("namespace") or "")
    scope = "" if kind == _CLUSTER_SCOPED else namespace
    replicas, effect = [], OverrideEffect.OTHERS
    for rule in (spec, *map(_mapping, _list(spec.get("overrideRules")))):
        overriders = _mapping(rule.get("overriders"))
        for each in map(_mapping, _list(overriders.get("plaintext"))):
            path, value = str(each.get("path")), each.get("value")
            if path == _REPLICAS:
                number = value if isinstance(value, int) and not isinstance(value, bool) else None
                named = _list(_mapping(rule.get("targetCluster")).get("clusterNames"))
                replicas.append(ReplicasOverride(number, tuple(map(str, named))))
            elif path.endswith(_IMAGE):
                effect = OverrideEffect.IMAGES
        if overriders.get("imageOverrider"):
            effect = OverrideEffect.IMAGES
    name = " ".join((kind, "/".join(filter(None, (scope, str(metadata.get("name")))))))
    selectors = tuple(_selectors(_list(spec.get("resourceSelectors"))))
    found = OverrideEffect.REPLICAS if replicas else effect
    return OverridePolicy(name, scope, selectors, found, tuple(replicas))


def _selectors(written: list[Any]) -> Iterator[ResourceSelector]:
    for each in written:
        try:
            yield convert(ResourceSelector, each)
        except FieldError:
            continue


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
