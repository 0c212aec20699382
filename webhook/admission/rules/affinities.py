"""Rules about cluster affinities and tolerations (karmada ``util.ClusterMatches``)."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from berthmaster.model.affinity import ClusterAffinity, ClusterAffinityTerm
from berthmaster.model.errors import FieldError, shown
from berthmaster.model.placement import Placement, SpreadConstraint
from berthmaster.model.policy import PropagationSpec
from berthmaster.model.taint import EFFECTS
from berthmaster.model.validation import affinities, label_selector_errors, placement_errors
from webhook.admission.field_problem import ABSENT, FieldProblem
from webhook.admission.placements import divides_by_static_weight, matches_every_cluster, named_clusters
from webhook.admission.rules.rule import ReviewedPolicy, about, rule

_GROUPS: Final = "spec.placement.clusterAffinities"
_TOLERATIONS: Final = "spec.placement.clusterTolerations"


@rule("group-unreachable", "A group after a group that accepts every cluster.")
def _unreachable(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    first_open = ""
    for index, group in enumerate(reviewed.policy.spec.placement.cluster_affinities or ()):
        if first_open:
            yield FieldProblem(
                f"{_GROUPS}[{index}]", group.affinity_name,
                f"the earlier group {shown(first_open)} accepts every cluster, so this group is never used",
                "put the open group last, or restrict it",
            )  # fmt: skip
        elif matches_every_cluster(group):
            first_open = group.affinity_name


@rule("group-repeated", "A group that matches the same clusters as an earlier group.")
def _repeated(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    groups = reviewed.policy.spec.placement.cluster_affinities or ()
    alike = Counter(map(_names, groups))
    seen: dict[tuple[object, ...], str] = {}
    for index, group in enumerate(groups if len(alike) < len(groups) else ()):
        if alike[_names(group)] == 1:
            continue
        meaning = _meaning(group)
        if meaning in seen and not matches_every_cluster(group):
            yield FieldProblem(
                f"{_GROUPS}[{index}]", group.affinity_name,
                f"matches the same clusters as group {shown(seen[meaning])}, and fails whenever that group fails",
                "change or remove one of them",
            )  # fmt: skip
        seen.setdefault(meaning, group.affinity_name)


def _names(group: ClusterAffinityTerm) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(group.cluster_names), frozenset(group.exclude)


def _meaning(group: ClusterAffinityTerm) -> tuple[object, ...]:
    # Selectors are compared as text. A warning need not recognize two spellings of one selector.
    overflow = [
        (str(each.label_selector), str(each.field_selector), named_clusters(each))
        for each in group.overflow_affinities or ()
    ]
    selectors = (str(group.label_selector), str(group.field_selector))
    return (*selectors, *_names(group), tuple(overflow))


@rule("groups-empty", "An empty list of groups: it places nothing and reports success.")
def _no_groups(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    if reviewed.policy.spec.placement.cluster_affinities == ():
        yield FieldProblem(
            _GROUPS, "[]", "with an empty list scheduling succeeds and places nothing",
            "list a group, or remove the field to allow every cluster",
        )  # fmt: skip


@rule("cluster-named-and-excluded", "A cluster in both `clusterNames` and `exclude`.")
def _excluded_by_name(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    for path, affinity in affinities(reviewed.policy.spec.placement):
        both = affinity.exclude and sorted(frozenset(affinity.cluster_names) & frozenset(affinity.exclude))
        if both:
            effect = "exclude wins" if named_clusters(affinity) else "the affinity matches no cluster"
            yield FieldProblem(
                f"spec.placement.{path}.exclude", ", ".join(both), f"in clusterNames and in exclude: {effect}",
                "remove the names from one of the lists",
            )  # fmt: skip


@rule("selector-broken", "An invalid label or field selector, which matches nothing.")
def _broken_selector(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    for error in _selector_errors(reviewed.policy.spec):
        expression = error.path[: error.path.rindex("]") + 1]
        yield FieldProblem(
            expression, ABSENT, f"{error.problem}, so the whole selector matches nothing", "correct the expression"
        )


def _selector_errors(spec: PropagationSpec) -> Iterator[FieldError]:
    for error in placement_errors(spec.placement):
        yield error.below("spec.placement")
    for index, selector in enumerate(spec.resource_selectors):
        if selector.label_selector is not None:
            for error in label_selector_errors(selector.label_selector):
                yield error.below(f"spec.resourceSelectors[{index}].labelSelector")


@rule("toleration-of-everything", "A toleration without a key that tolerates every taint.")
def _everything(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    for index, toleration in enumerate(reviewed.policy.spec.placement.cluster_tolerations):
        if toleration.operator != "Exists" or toleration.key:
            continue
        if toleration.effect in {"", "NoExecute", "NoSchedule"}:
            which = f"every {toleration.effect} taint" if toleration.effect else "every taint"
            yield FieldProblem(
                f"{_TOLERATIONS}[{index}]", toleration.operator,
                f"without a key it tolerates {which}, also those of failed and cordoned clusters", "set the key",
            )  # fmt: skip


@rule("toleration-without-key", "A toleration by value that matches every key.")
def _keyless(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    for index, toleration in enumerate(reviewed.policy.spec.placement.cluster_tolerations):
        if not toleration.key and toleration.operator in {"", "Equal"}:
            yield FieldProblem(
                f"{_TOLERATIONS}[{index}].key", toleration.key,
                f"without a key it tolerates every taint with the value {shown(toleration.value)}", "set the key",
            )  # fmt: skip


@rule("toleration-without-effect", "A toleration that tolerates nothing, or has a value that is ignored.")
def _nothing(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    for index, toleration in enumerate(reviewed.policy.spec.placement.cluster_tolerations):
        path = f"{_TOLERATIONS}[{index}]"
        if toleration.effect and toleration.effect not in EFFECTS:
            yield FieldProblem(
                f"{path}.effect", toleration.effect, "no taint has this effect, so it tolerates nothing",
                f"accepted are {', '.join(EFFECTS)}; an empty effect means all of them",
            )  # fmt: skip
        if toleration.operator not in {"", "Equal", "Exists", "Lt", "Gt"}:
            yield FieldProblem(
                f"{path}.operator", toleration.operator, "unknown operator, so it tolerates nothing",
                "accepted are Exists and Equal",
            )  # fmt: skip
        elif toleration.operator == "Exists" and toleration.value:
            yield FieldProblem(
                f"{path}.value", toleration.value, "operator Exists ignores the value",
                "remove it, or use operator Equal",
            )  # fmt: skip


def _has_groups(reviewed: ReviewedPolicy) -> bool:
    """Return whether there is a list of groups; it may be empty."""
    return reviewed.policy.spec.placement.cluster_affinities is not None


AFFINITY_RULES: Final = (
    *about(_has_groups, (_unreachable, _repeated, _no_groups)),
    _excluded_by_name,
    _broken_selector,
)
TOLERATION_RULES: Final = (_everything, _keyless, _nothing)


_SELECTING: Final = frozenset({"region", "cluster"})
_PATH: Final = "spec.placement.spreadConstraints"


@rule("spread-ignored-by-static-weight", "Spread constraints together with static weights.")
def _ignored_by_static_weight(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    placement = reviewed.policy.spec.placement
    if divides_by_static_weight(placement.replica_scheduling):
        yield FieldProblem(
            _PATH, ABSENT, "the scheduler ignores spread constraints if static weights divide the replicas",
            "divide by dynamicWeight or Aggregated, or remove the constraints",
        )  # fmt: skip


def _constraints(reviewed: ReviewedPolicy) -> tuple[SpreadConstraint, ...]:
    placement = reviewed.policy.spec.placement
    return () if divides_by_static_weight(placement.replica_scheduling) else placement.spread_constraints


@rule("spread-max-groups-unset", "A constraint by cluster or region without `maxGroups`.")
def _max_groups_unset(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    for index, constraint in enumerate(_constraints(reviewed)):
        if constraint.max_groups == 0 and constraint.spread_by_field in _SELECTING:
            yield FieldProblem(
                f"{_PATH}[{index}].maxGroups", ABSENT, "the scheduler reads an absent value as 0 and selects nothing",
                f"set it to {max(constraint.min_groups, 1)} or more",
            )  # fmt: skip


@rule("spread-unsupported", "Constraints by zone, provider or label alone.")
def _not_supported_alone(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    constraints = _constraints(reviewed)
    if constraints and not any(each.spread_by_field in _SELECTING for each in constraints):
        yield FieldProblem(
            _PATH, _shown(constraints[0]), "the scheduler spreads by cluster and region only, and fails",
            "add a constraint with spreadByField: cluster",
        )  # fmt: skip


@rule("spread-without-effect", "A constraint by zone, provider or label together with one by cluster or region.")
def _without_effect(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    constraints = _constraints(reviewed)
    if not any(each.spread_by_field in _SELECTING for each in constraints):
        return
    for index, constraint in enumerate(constraints):
        if constraint.spread_by_field not in _SELECTING:
            yield FieldProblem(
                f"{_PATH}[{index}]", _shown(constraint),
                "the scheduler selects by cluster and region only, and ignores this constraint",
                "spread by region, or remove the constraint",
            )  # fmt: skip


def _shown(constraint: SpreadConstraint) -> str:
    return constraint.spread_by_field or f"label {constraint.spread_by_label}"


@rule("spread-min-above-named", "A `minGroups` above the number of named clusters.")
def _more_than_named(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    groups = [each.min_groups for each in _constraints(reviewed) if each.spread_by_field == "cluster"]
    if not groups:
        return
    wanted = max(groups)
    for path, affinity in _affinities(reviewed.policy.spec.placement):
        named = named_clusters(affinity)
        if named is not None and wanted > len(named):
            yield FieldProblem(
                f"{path}.clusterNames", len(named),
                f"fewer clusters than minGroups {wanted}, so the scheduler selects nothing",
                "name more clusters, or lower minGroups",
            )  # fmt: skip


def _affinities(placement: Placement) -> Iterator[tuple[str, ClusterAffinity]]:
    if placement.cluster_affinity is not None:
        yield "spec.placement.clusterAffinity", placement.cluster_affinity
    for index, group in enumerate(placement.cluster_affinities or ()):
        if not group.overflow_affinities:
            yield f"spec.placement.clusterAffinities[{index}]", group


@rule("overflow-forbidden-by-spread", "Overflow affinities with a `maxGroups` that the group alone reaches.")
def _overflow_forbidden(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    constraints = [each for each in _constraints(reviewed) if each.spread_by_field == "cluster" and each.max_groups > 0]
    if not constraints:
        return
    limit = min(each.max_groups for each in constraints)
    for index, group in enumerate(reviewed.policy.spec.placement.cluster_affinities or ()):
        named = named_clusters(group)
        if group.overflow_affinities and limit <= (len(named) if named is not None else 1):
            yield FieldProblem(
                f"spec.placement.clusterAffinities[{index}].overflowAffinities", ABSENT,
                f"the group alone reaches maxGroups {limit} of the spread constraint, so overflow is never used",
                "raise maxGroups, or remove the overflow",
            )  # fmt: skip


SPREADING_RULES: Final = (
    _ignored_by_static_weight,
    _max_groups_unset,
    _not_supported_alone,
    _without_effect,
    _more_than_named,
    _overflow_forbidden,
)
