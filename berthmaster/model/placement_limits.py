"""Limits on the size of a placement.

The work of a decision grows with the product of a placement and a fleet. The limits keep that product small for every
object that a user of one namespace can write. The webhook denies objects above the limits, and nothing schedules them.
Karmada has no such limits. The defaults are far above what people write by hand, and operators can change them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Self

from berthmaster.model.affinity import ClusterAffinity
from berthmaster.model.comma_lists import comma_separated
from berthmaster.model.errors import FieldError, InputError, shown
from berthmaster.model.placement import Placement
from berthmaster.model.policy import Policy, ResourceSelector
from berthmaster.model.selector import SelectorRequirement

OPTION: Final = "--placement-limits"
MAX_LIMIT: Final = 1_000_000_000
_MAX_ERRORS: Final = 16
_NOUNS: Final = {
    "expressions": "expressions in its selectors",
    "values": "values in the expressions of its selectors",
    "cluster_names": "names of clusters",
}


class PlacementLimits(NamedTuple):
    """The limits. All are inclusive and at least 1.

    Attributes:
        groups: groups of a Karmada placement (``clusterAffinities``), or terms of a KubeAdmiral ``clusterAffinity``.
        expressions: label and field expressions of all selectors of a placement together. An entry of ``matchLabels``
            or of KubeAdmiral's ``clusterSelector`` counts as one.
        cluster_names: names of clusters in all affinities of a placement together, included and excluded.
        steps: the work of one decision over all groups of the placement. A step takes about ten nanoseconds.
    """

    resource_selectors: int = 1024
    groups: int = 1024
    overflow_affinities: int = 64
    static_weights: int = 1024
    spread_constraints: int = 32
    tolerations: int = 256
    expressions: int = 4096
    values: int = 32_768
    cluster_names: int = 65_536
    steps: int = 20_000_000

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``groups=2048,tolerations=64`` over the defaults; the last value counts. Raises ``InputError``."""
        given = {}
        for part in comma_separated(text):
            name, equals, number = (piece.strip() for piece in part.partition("="))
            if name not in LIMIT_NAMES:
                raise InputError(f"unknown limit {shown(name)}; known are {', '.join(LIMIT_NAMES)}")
            short = number.isascii() and number.isdecimal() and len(number) <= len(str(MAX_LIMIT))
            if not equals or not short or not 1 <= int(number) <= MAX_LIMIT:
                raise InputError(f"{shown(part)} is not NAME=N with N from 1 to {MAX_LIMIT}")
            given[LIMIT_NAMES[name]] = int(number)
        return cls(**given)


DEFAULT_LIMITS: Final = PlacementLimits()


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


LIMIT_NAMES: Final[Mapping[str, str]] = {_camel(name): name for name in PlacementLimits._fields}
"""The name of each limit in ``--placement-limits``, and its attribute."""


def policy_excess(policy: Policy, limits: PlacementLimits = DEFAULT_LIMITS) -> list[FieldError]:
    """Return what exceeds the limits in a policy, in linear time; at most 16 errors. Paths start at the policy."""
    selectors, path = policy.spec.resource_selectors, "spec.resourceSelectors"
    own = [(path, len(selectors), "resource_selectors", ""), *in_selectors(path, *_of_labels(selectors))]
    errors = excess(own, limits)
    errors += [error.below("spec.placement") for error in placement_excess(policy.spec.placement, limits)]
    return errors[:_MAX_ERRORS]


def placement_excess(placement: Placement, limits: PlacementLimits = DEFAULT_LIMITS) -> list[FieldError]:
    """Return what exceeds the limits in a placement, in linear time; at most 16 errors."""
    return excess(_counts(placement), limits)


_Count = tuple[str, int, str, str]
"""How many things a field has: its path, their number, the attribute of their limit, and a name if it is unusual."""


def excess(counts: Sequence[_Count], limits: PlacementLimits) -> list[FieldError]:
    """Return what exceeds the limits; at most 16 errors."""
    errors = []
    for path, found, limit, noun in counts:
        if found and found > (accepted := getattr(limits, limit)):
            things = noun or _NOUNS.get(limit, limit.replace("_", " "))
            remedy = f"use fewer, or raise {_camel(limit)} in {OPTION}"
            errors.append(FieldError(path, f"{found:,} {things}; at most {accepted:,} are scheduled", remedy))
            if len(errors) >= _MAX_ERRORS:
                break
    return errors


def _counts(placement: Placement) -> list[_Count]:
    groups = placement.cluster_affinities or ()
    affinities = [] if placement.cluster_affinity is None else [placement.cluster_affinity]
    counts = [("clusterAffinities", len(groups), "groups", "")]
    for index, group in enumerate(groups):
        affinities.append(group)
        if group.overflow_affinities:
            affinities += group.overflow_affinities
            path = f"clusterAffinities[{index}].overflowAffinities"
            counts.append((path, len(group.overflow_affinities), "overflow_affinities", ""))
    counts.append(("spreadConstraints", len(placement.spread_constraints), "spread_constraints", ""))
    counts.append(("clusterTolerations", len(placement.cluster_tolerations), "tolerations", ""))
    strategy = placement.replica_scheduling
    if strategy is not None and strategy.weight_preference is not None:
        weights = strategy.weight_preference.static_weight_list
        affinities += [each.target_cluster for each in weights]
        counts.append(("replicaScheduling.weightPreference.staticWeightList", len(weights), "static_weights", ""))
    labels, lists = _of_labels(affinities)
    names = 0
    for each in affinities:
        names += len(each.cluster_names) + len(each.exclude)
        if each.field_selector is not None:
            lists.append(each.field_selector.match_expressions)
    return [*counts, *in_selectors("", labels, lists), ("", names, "cluster_names", "")]


def _of_labels(
    selected: Iterable[ClusterAffinity | ResourceSelector],
) -> tuple[int, list[tuple[SelectorRequirement, ...]]]:
    labels, lists = 0, []
    for each in selected:
        if each.label_selector is not None:
            labels += len(each.label_selector.match_labels)
            lists.append(each.label_selector.match_expressions)
    return labels, lists


def in_selectors(path: str, labels: int, lists: Iterable[tuple[SelectorRequirement, ...]]) -> tuple[_Count, _Count]:
    """Return how many expressions and values selectors have together. A label is an expression with one value."""
    expressions = values = labels
    for each in lists:
        expressions += len(each)
        for expression in each:
            values += len(expression.values)
    return (path, expressions, "expressions", ""), (path, values, "values", "")
