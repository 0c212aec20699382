"""Rules about spread constraints, and about what they exclude."""

from collections.abc import Iterator
from typing import Final

from berthmaster.model.affinity import ClusterAffinity
from berthmaster.model.division_strategy import ignores_constraints
from berthmaster.model.placement import Placement, SpreadConstraint
from webhook.admission.field_problem import ABSENT, FieldProblem
from webhook.admission.placements import named_clusters
from webhook.admission.rules.rule import ReviewedPolicy, rule

_SELECTING: Final = frozenset({"region", "cluster"})
_PATH: Final = "spec.placement.spreadConstraints"


@rule("spread-ignored-by-static-weight", "Spread constraints together with static weights.")
def _ignored_by_static_weight(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    placement = reviewed.policy.spec.placement
    if ignores_constraints(placement.replica_scheduling):
        yield FieldProblem(
            _PATH, ABSENT, "the scheduler ignores spread constraints if static weights divide the replicas",
            "divide by dynamicWeight or Aggregated, or remove the constraints",
        )  # fmt: skip


def _constraints(reviewed: ReviewedPolicy) -> tuple[SpreadConstraint, ...]:
    placement = reviewed.policy.spec.placement
    return () if ignores_constraints(placement.replica_scheduling) else placement.spread_constraints


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
