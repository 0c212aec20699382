"""Rules about the division of replicas (karmada ``pkg/scheduler/core/assignment.go``)."""

from collections.abc import Iterator
from typing import Final

from berthmaster.model.affinity import ClusterAffinity
from berthmaster.model.division_strategy import ignores_constraints
from berthmaster.model.placement import Placement
from webhook.admission.field_problem import ABSENT, FieldProblem
from webhook.admission.placements import named_clusters
from webhook.admission.rules.rule import ReviewedPolicy, rule

_PATH: Final = "spec.placement.replicaScheduling"
_SPREAD: Final = frozenset({"cluster", "region"})


@rule("division-without-effect", "A division preference or weights with type `Duplicated`.")
def _divided_though_duplicated(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    strategy = reviewed.policy.spec.placement.replica_scheduling
    if strategy is None or strategy.replica_scheduling_type == "Divided":
        return
    if strategy.replica_division_preference:
        yield _unused("replicaDivisionPreference", strategy.replica_division_preference)
    if strategy.weight_preference is not None:
        yield _unused("weightPreference", ABSENT)


def _unused(field: str, value: object) -> FieldProblem:
    return FieldProblem(
        f"{_PATH}.{field}", value, "no effect with type Duplicated: every cluster gets all replicas",
        "set replicaSchedulingType to Divided, or remove it",
    )  # fmt: skip


@rule("weights-without-effect", "Weights with `Aggregated`, or static weights with a `dynamicWeight`.")
def _weights_ignored(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    strategy = reviewed.policy.spec.placement.replica_scheduling
    if strategy is None or strategy.replica_scheduling_type != "Divided" or strategy.weight_preference is None:
        return
    if strategy.replica_division_preference == "Aggregated":
        yield FieldProblem(
            f"{_PATH}.weightPreference", ABSENT,
            "no effect with Aggregated: replicas go to as few clusters as possible",
            "set replicaDivisionPreference to Weighted, or remove the weights",
        )  # fmt: skip
    elif strategy.weight_preference.static_weight_list and strategy.weight_preference.dynamic_weight:
        yield FieldProblem(
            f"{_PATH}.weightPreference.staticWeightList", ABSENT,
            "no effect: dynamicWeight is set and takes precedence", "keep one of them",
        )  # fmt: skip


@rule("static-weight-unmatched", "A static weight that matches none of the policy's clusters.")
def _unmatched_weight(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    targets = _weighted_clusters(reviewed.policy.spec.placement)
    if not targets:
        return
    possible = _possible_clusters(reviewed.policy.spec.placement)
    unmatched = [index for index, target in enumerate(targets) if _is_disjoint(target, possible)]
    effect = (
        "neither does any other entry, so all clusters have the same weight" if len(unmatched) == len(targets)
        else "so this weight is never used"
    )  # fmt: skip
    for index in unmatched:
        yield FieldProblem(
            f"{_PATH}.weightPreference.staticWeightList[{index}].targetCluster",
            ", ".join(targets[index].cluster_names),
            f"matches no cluster that the policy names, {effect}", "name clusters of the policy's affinity",
        )  # fmt: skip


@rule("static-weight-incomplete", "Named clusters without a static weight: they get no replicas.")
def _incomplete_weights(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    named = [named_clusters(target) for target in _weighted_clusters(reviewed.policy.spec.placement)]
    if not named or any(each is None for each in named):
        return
    possible = _possible_clusters(reviewed.policy.spec.placement)
    if possible is None:
        return
    weighted: set[str] = set()
    weighted.update(*filter(None, named))
    missing = possible - weighted
    if missing and missing != possible:
        yield FieldProblem(
            f"{_PATH}.weightPreference.staticWeightList", ", ".join(sorted(missing)),
            "the policy names these clusters without a weight, so they get no replicas",
            "add weights for them, or remove them from the affinity",
        )  # fmt: skip


@rule("aggregated-beside-min-groups", "`Aggregated` with a `minGroups` above 1, which it does not ensure.")
def _packed_though_spread(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    placement = reviewed.policy.spec.placement
    strategy = placement.replica_scheduling
    if strategy is None or strategy.replica_scheduling_type != "Divided":
        return
    if strategy.replica_division_preference != "Aggregated":
        return
    for index, constraint in enumerate(placement.spread_constraints):
        if constraint.spread_by_field in _SPREAD and constraint.min_groups > 1:
            yield FieldProblem(
                f"spec.placement.spreadConstraints[{index}].minGroups", constraint.min_groups,
                "the scheduler selects that many groups, but Aggregated uses as few of the selected clusters as "
                "possible, perhaps one",
                "divide by dynamicWeight, or set minGroups to 1",
            )  # fmt: skip


DIVISION_RULES: Final = (
    _divided_though_duplicated,
    _weights_ignored,
    _unmatched_weight,
    _packed_though_spread,
    _incomplete_weights,
)


def _weighted_clusters(placement: Placement) -> list[ClusterAffinity]:
    """Return the target of each static weight; empty if no static weights divide the replicas."""
    strategy = placement.replica_scheduling
    if strategy is None or strategy.weight_preference is None or not ignores_constraints(strategy):
        return []
    return [each.target_cluster for each in strategy.weight_preference.static_weight_list]


def _possible_clusters(placement: Placement) -> frozenset[str] | None:
    """Return the only clusters that the policy can match; None if it does not list names."""
    single = () if placement.cluster_affinity is None else (placement.cluster_affinity,)
    affinities = [*single, *(placement.cluster_affinities or ())]
    possible: set[str] = set()
    for affinity in affinities:
        named = named_clusters(affinity)
        if named is None:
            return None
        possible |= named  # in place: a new set for each affinity would take quadratic time
    return frozenset(possible) if affinities else None


def _is_disjoint(target: ClusterAffinity, possible: frozenset[str] | None) -> bool:
    named = named_clusters(target)
    if named is not None and not named:
        return True
    if possible is None:
        return False
    return not named & possible if named is not None else possible <= frozenset(target.exclude)
