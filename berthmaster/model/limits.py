"""Limits on the size of a placement: how many groups, weights, selectors and names are scheduled.

The work of a decision grows with the product of a placement and a fleet. The limits keep that product small for every
object that a user of one namespace can write. The webhook denies objects above the limits. The extender, the
controllers and the commands refuse to schedule them. All report the same field and the same text.

Karmada has no such limits. The defaults are far above what people write by hand, and operators can change them.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple, Self

from berthmaster.model.errors import FieldError, InputError, shown
from berthmaster.model.kubeadmiral import KubeAdmiralSpec
from berthmaster.model.placement import ClusterAffinity, Placement
from berthmaster.model.policy import Policy
from berthmaster.model.selector import LabelSelector, SelectorRequirement

OPTION: Final = "--placement-limits"
MAX_LIMIT: Final = 1_000_000_000
_MAX_ERRORS: Final = 16


class PlacementLimits(NamedTuple):
    """The limits. All are inclusive and at least 1.

    Attributes:
        resource_selectors: selectors of resources in a policy.
        groups: groups of a Karmada placement (``clusterAffinities``), or terms of a KubeAdmiral ``clusterAffinity``.
        overflow_affinities: overflow affinities of one group.
        static_weights: entries of ``staticWeightList``.
        spread_constraints: spread constraints.
        tolerations: tolerations.
        expressions: label and field expressions of all selectors of a placement together. An entry of ``matchLabels``
            or of KubeAdmiral's ``clusterSelector`` counts as one.
        values: values of all these expressions together.
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
        """Parse ``groups=2048,tolerations=64``. Limits that the text does not name keep their defaults.

        Args:
            text: NAME=N, separated by commas. The last value of a name counts.

        Raises:
            InputError: the text has another form, a name is unknown, or a number is out of range.
        """
        given = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, equals, number = (piece.strip() for piece in part.partition("="))
            if name not in LIMIT_NAMES:
                raise InputError(f"unknown limit {shown(name)}; known are {', '.join(LIMIT_NAMES)}")
            short = number.isascii() and number.isdecimal() and len(number) <= len(str(MAX_LIMIT))
            if not equals or not short or not 1 <= int(number) <= MAX_LIMIT:
                raise InputError(f"{shown(part)} is not NAME=N with N from 1 to {MAX_LIMIT}")
            given[LIMIT_NAMES[name]] = int(number)
        return cls(**given)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


LIMIT_NAMES: Final[Mapping[str, str]] = {_camel(name): name for name in PlacementLimits._fields}
"""The name of each limit in ``--placement-limits``, and its attribute."""
DEFAULT_LIMITS: Final = PlacementLimits()


def policy_excess(policy: Policy, limits: PlacementLimits = DEFAULT_LIMITS) -> list[FieldError]:
    """Return what exceeds the limits in a policy, in linear time; at most 16 errors. Paths start at the policy."""
    selectors = policy.spec.resource_selectors
    labels = [each.label_selector for each in selectors if each.label_selector is not None]
    excess = [
        *_over("spec.resourceSelectors", len(selectors), "resource selectors", "resourceSelectors", limits),
        *_over_expressions("spec.resourceSelectors", map(_size_of_labels, labels), limits),
        *(error.below("spec.placement") for error in placement_excess(policy.spec.placement, limits)),
    ]
    return excess[:_MAX_ERRORS]


def placement_excess(placement: Placement, limits: PlacementLimits = DEFAULT_LIMITS) -> list[FieldError]:
    """Return what exceeds the limits in a placement, in linear time; at most 16 errors.

    Paths start at the placement.
    """
    return list(islice(_placement_excess(placement, limits), _MAX_ERRORS))


def kubeadmiral_excess(spec: KubeAdmiralSpec, limits: PlacementLimits = DEFAULT_LIMITS) -> list[FieldError]:
    """Return what exceeds the limits in the spec of a KubeAdmiral policy, in linear time. Paths start at ``spec``."""
    sizes = [
        _Size(len(spec.cluster_selector), len(spec.cluster_selector)),
        *(_size_of(term.match_expressions, term.match_fields) for term in spec.cluster_affinity),
    ]
    return [
        error.below("spec")
        for error in (
            *_over("clusterAffinity", len(spec.cluster_affinity), "terms", "groups", limits),
            *_over("tolerations", len(spec.tolerations), "tolerations", "tolerations", limits),
            *_over("placement", len(spec.placement), "clusters", "clusterNames", limits),
            *_over_expressions("", sizes, limits),
        )
    ]


def _placement_excess(placement: Placement, limits: PlacementLimits) -> Iterator[FieldError]:
    groups = placement.cluster_affinities or ()
    yield from _over("clusterAffinities", len(groups), "groups", "groups", limits)
    for index, group in enumerate(groups):
        overflow = group.overflow_affinities
        if overflow is not None and len(overflow) > limits.overflow_affinities:
            path = f"clusterAffinities[{index}].overflowAffinities"
            yield from _over(path, len(overflow), "overflow affinities", "overflowAffinities", limits)
    constraints, tolerations = placement.spread_constraints, placement.cluster_tolerations
    yield from _over("spreadConstraints", len(constraints), "spread constraints", "spreadConstraints", limits)
    yield from _over("clusterTolerations", len(tolerations), "tolerations", "tolerations", limits)
    strategy = placement.replica_scheduling
    if strategy is not None and strategy.weight_preference is not None:
        weights = strategy.weight_preference.static_weight_list
        path = "replicaScheduling.weightPreference.staticWeightList"
        yield from _over(path, len(weights), "static weights", "staticWeights", limits)
    affinities = list(_affinities(placement))
    yield from _over_expressions("", map(_size_of_affinity, affinities), limits)
    names = sum(len(each.cluster_names) + len(each.exclude) for each in affinities)
    yield from _over("", names, "names of clusters", "clusterNames", limits)


def _affinities(placement: Placement) -> Iterator[ClusterAffinity]:
    if placement.cluster_affinity is not None:
        yield placement.cluster_affinity
    for group in placement.cluster_affinities or ():
        yield group
        yield from group.overflow_affinities or ()
    strategy = placement.replica_scheduling
    if strategy is not None and strategy.weight_preference is not None:
        for weight in strategy.weight_preference.static_weight_list:
            yield weight.target_cluster


class _Size(NamedTuple):
    """The size of a selector."""

    expressions: int
    values: int


def _size_of_affinity(affinity: ClusterAffinity) -> _Size:
    fields = affinity.field_selector
    size = _size_of(fields.match_expressions) if fields is not None else _Size(0, 0)
    if affinity.label_selector is None:
        return size
    labels = _size_of_labels(affinity.label_selector)
    return _Size(size.expressions + labels.expressions, size.values + labels.values)


def _size_of_labels(selector: LabelSelector) -> _Size:
    size = _size_of(selector.match_expressions)
    return _Size(size.expressions + len(selector.match_labels), size.values + len(selector.match_labels))


def _size_of(*lists: tuple[SelectorRequirement, ...]) -> _Size:
    return _Size(
        sum(len(expressions) for expressions in lists),
        sum(len(expression.values) for expressions in lists for expression in expressions),
    )


def _over_expressions(path: str, sizes: Iterable[_Size], limits: PlacementLimits) -> tuple[FieldError, ...]:
    expressions = values = 0
    for size in sizes:
        expressions += size.expressions
        values += size.values
    return (
        *_over(path, expressions, "expressions in its selectors", "expressions", limits),
        *_over(path, values, "values in the expressions of its selectors", "values", limits),
    )


def _over(path: str, found: int, noun: str, name: str, limits: PlacementLimits) -> tuple[FieldError, ...]:
    # Not a generator: the webhook calls this function eight times for each review.
    accepted: int = getattr(limits, LIMIT_NAMES[name])
    if found <= accepted:
        return ()
    remedy = f"use fewer, or raise {name} in {OPTION}"
    return (FieldError(path, f"{found:,} {noun}; at most {accepted:,} are scheduled; {remedy}"),)
