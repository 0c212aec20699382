"""Rules about spread constraints (karmada ``pkg/scheduler/core/spreadconstraint``)."""

from collections.abc import Iterator
from typing import Final

from webhook.admission.karmada.policy import Affinity, Placement
from webhook.admission.problem import ABSENT, Problem
from webhook.admission.rules.rule import PolicyChange, Rule

_SELECTING: Final = frozenset({"region", "cluster"})
_PATH: Final = "spec.placement.spreadConstraints"


def _ignored_by_static_weight(change: PolicyChange) -> Iterator[Problem]:
    if change.policy.spec.placement.spread_constraints and _static(change.policy.spec.placement):
        yield Problem(
            _PATH, ABSENT, "replicas are divided by static weights, so the scheduler ignores all spread constraints",
            "divide by dynamicWeight or Aggregated, or remove the constraints",
        )  # fmt: skip


def _max_groups_unset(change: PolicyChange) -> Iterator[Problem]:
    placement = change.policy.spec.placement
    if _static(placement):
        return
    for index, constraint in enumerate(placement.spread_constraints):
        if constraint.max_groups == 0 and constraint.spread_by_field in _SELECTING:
            yield Problem(
                f"{_PATH}[{index}].maxGroups", ABSENT, "the scheduler reads it as 0 and then selects nothing at all",
                f"set it, to {max(constraint.min_groups, 1)} or more",
            )  # fmt: skip


def _not_supported_alone(change: PolicyChange) -> Iterator[Problem]:
    placement = change.policy.spec.placement
    constraints = placement.spread_constraints
    if not constraints or _static(placement):
        return
    if not any(each.spread_by_field in _SELECTING for each in constraints):
        given = constraints[0].spread_by_field or f"label {constraints[0].spread_by_label}"
        yield Problem(
            _PATH, given, "the scheduler spreads by cluster and region only, and fails on these constraints",
            "add a constraint with spreadByField: cluster",
        )  # fmt: skip


def _without_effect(change: PolicyChange) -> Iterator[Problem]:
    placement = change.policy.spec.placement
    constraints = placement.spread_constraints
    if _static(placement) or not any(each.spread_by_field in _SELECTING for each in constraints):
        return
    for index, constraint in enumerate(constraints):
        if constraint.spread_by_field in _SELECTING:
            continue
        given = constraint.spread_by_field or f"label {constraint.spread_by_label}"
        yield Problem(
            f"{_PATH}[{index}]", given,
            "the scheduler selects by cluster and region only: minGroups and maxGroups here have no effect",
            "spread by region, or remove it",
        )  # fmt: skip


def _more_than_named(change: PolicyChange) -> Iterator[Problem]:
    placement = change.policy.spec.placement
    if _static(placement):
        return
    wanted = max(
        (each.min_groups for each in placement.spread_constraints if each.spread_by_field == "cluster"),
        default=0,
    )
    for path, affinity in _affinities(placement):
        if affinity.named is not None and wanted > len(affinity.named):
            yield Problem(
                f"{path}.clusterNames", len(affinity.named),
                f"fewer clusters are named than minGroups {wanted} asks for, so that nothing can be selected",
                "name more clusters, or lower minGroups",
            )  # fmt: skip


def _overflow_forbidden(change: PolicyChange) -> Iterator[Problem]:
    placement = change.policy.spec.placement
    if _static(placement):
        return
    limits = [each.max_groups for each in placement.spread_constraints if each.spread_by_field == "cluster"]
    limit = min((each for each in limits if each > 0), default=0)
    for index, group in enumerate(placement.cluster_affinities or ()):
        primary = len(group.named) if group.named is not None else 1
        if limit and group.overflow_affinities and limit <= primary:
            yield Problem(
                f"spec.placement.clusterAffinities[{index}].overflowAffinities", ABSENT,
                f"a spread constraint allows {limit} clusters, which the group itself takes up: there is no room "
                f"to overflow to",
                "raise maxGroups, or remove the overflow",
            )  # fmt: skip


def _static(placement: Placement) -> bool:
    return placement.replica_scheduling is not None and placement.replica_scheduling.by_static_weight


def _affinities(placement: Placement) -> Iterator[tuple[str, Affinity]]:
    if placement.cluster_affinity is not None:
        yield "spec.placement.clusterAffinity", placement.cluster_affinity
    for index, group in enumerate(placement.cluster_affinities or ()):
        if not group.overflow_affinities:
            yield f"spec.placement.clusterAffinities[{index}]", group


RULES: Final = (
    Rule(
        "spread-ignored-by-static-weight",
        "Spread constraints beside a division by static weights.",
        _ignored_by_static_weight,
    ),
    Rule("spread-max-groups-unset", "A constraint by cluster or region without `maxGroups`.", _max_groups_unset),
    Rule("spread-unsupported", "Constraints by zone, provider or label alone.", _not_supported_alone),
    Rule(
        "spread-without-effect",
        "A constraint by zone, provider or label beside one by cluster or region.",
        _without_effect,
    ),
    Rule("spread-min-above-named", "`minGroups` above the number of clusters that are named.", _more_than_named),
    Rule(
        "overflow-forbidden-by-spread",
        "Overflow affinities, and a `maxGroups` that the group takes up.",
        _overflow_forbidden,
    ),
)
