"""Which policy claims a resource (karmada ``pkg/detector/compare.go``, ``pkg/util/selector.go``)."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from berthmaster.model.base import Value
from berthmaster.model.policy import Policy, ResourceSelector


class MatchLevel(IntEnum):
    """How closely a selector names a resource: the implicit priority among policies of equal explicit priority."""

    NONE = 0
    KIND = 1
    LABELS = 2
    NAME = 3


class Template(Value, frozen=True):
    """What policy matching knows of a resource."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    labels: Mapping[str, str] = {}


class Claim(NamedTuple):
    """A policy that matches a resource, with what it won or lost by."""

    policy: Policy
    level: MatchLevel

    def rank(self) -> tuple[int, int, int, str]:
        """The smallest rank wins: namespaced before cluster-wide, then priority, closeness, name."""
        return (
            int(self.policy.cluster_scoped), -self.policy.explicit_priority, -self.level, self.policy.metadata.name
        )  # fmt: skip


def match_level(selector: ResourceSelector, template: Template) -> MatchLevel:
    """How closely one selector names a resource. A name makes the label selector play no part."""
    if (selector.api_version, selector.kind) != (template.api_version, template.kind):
        return MatchLevel.NONE
    if selector.namespace and selector.namespace != template.namespace:
        return MatchLevel.NONE
    if selector.name:
        return MatchLevel.NAME if selector.name == template.name else MatchLevel.NONE
    if selector.label_selector is None:
        return MatchLevel.KIND
    return MatchLevel.LABELS if selector.label_selector.matches(template.labels) else MatchLevel.NONE


def claims(template: Template, policies: Iterable[Policy]) -> list[Claim]:
    """The policies that match a resource, the one that claims it first.

    A policy that is being deleted claims nothing; a PropagationPolicy claims in its own namespace only.
    """
    found = []
    for policy in policies:
        in_reach = policy.cluster_scoped or (template.namespace and policy.metadata.namespace == template.namespace)
        if not in_reach or policy.metadata.deletion_timestamp is not None:
            continue
        levels = (match_level(selector, template) for selector in policy.spec.resource_selectors)
        level = max(levels, default=MatchLevel.NONE)
        if level:
            found.append(Claim(policy, level))
    return sorted(found, key=Claim.rank)
