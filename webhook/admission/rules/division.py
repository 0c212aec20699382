"""Rules about how replicas are divided (karmada ``pkg/scheduler/core/assignment.go``)."""

from collections.abc import Iterator
from typing import Final

from webhook.admission.karmada.policy import Affinity, Placement
from webhook.admission.problem import ABSENT, Problem
from webhook.admission.rules.rule import PolicyChange, Rule

_PATH: Final = "spec.placement.replicaScheduling"


def _divided_though_duplicated(change: PolicyChange) -> Iterator[Problem]:
    division = change.policy.spec.placement.replica_scheduling
    if division is None or division.divided:
        return
    if division.replica_division_preference:
        yield _unused("replicaDivisionPreference", division.replica_division_preference)
    if division.weight_preference is not None:
        yield _unused("weightPreference", ABSENT)


def _unused(field: str, value: object) -> Problem:
    return Problem(
        f"{_PATH}.{field}", value, "every cluster gets all replicas, because the type is Duplicated: this has no "
                                   "effect",
        "set replicaSchedulingType to Divided, or remove it",
    )  # fmt: skip


def _weights_ignored(change: PolicyChange) -> Iterator[Problem]:
    division = change.policy.spec.placement.replica_scheduling
    if division is None or not division.divided or division.weight_preference is None:
        return
    if division.replica_division_preference == "Aggregated":
        yield Problem(
            f"{_PATH}.weightPreference", ABSENT, "replicas are packed into as few clusters as can hold them: "
                                                 "weights play no part",
            "set replicaDivisionPreference to Weighted, or remove the weights",
        )  # fmt: skip
    elif division.weight_preference.static_weight_list and division.weight_preference.dynamic_weight:
        yield Problem(
            f"{_PATH}.weightPreference.staticWeightList", ABSENT, "dynamicWeight is set too and wins: the list "
                                                                  "has no effect",
            "keep one of them",
        )  # fmt: skip


def _unmatched_weight(change: PolicyChange) -> Iterator[Problem]:
    placement = change.policy.spec.placement
    division = placement.replica_scheduling
    if division is None or not division.by_static_weight or division.weight_preference is None:
        return
    possible = _possible(placement)
    weights = division.weight_preference.static_weight_list
    unmatched = [index for index, each in enumerate(weights) if _disjoint(each.target_cluster, possible)]
    fate = (
        "and so does every other entry, so that all clusters weigh the same" if len(unmatched) == len(weights)
        else "so that this weight is never used"
    )  # fmt: skip
    for index in unmatched:
        yield Problem(
            f"{_PATH}.weightPreference.staticWeightList[{index}].targetCluster",
            ", ".join(weights[index].target_cluster.cluster_names),
            f"matches none of the clusters that the policy names, {fate}",
            "name clusters of the policy's affinity here",
        )  # fmt: skip


def _possible(placement: Placement) -> frozenset[str] | None:
    """The clusters that the policy can mean by name; None if it leaves that open."""
    names: frozenset[str] = frozenset()
    affinities = [
        each for each in (placement.cluster_affinity, *(placement.cluster_affinities or ())) if each is not None
    ]
    for affinity in affinities:
        if affinity.named is None:
            return None
        names |= affinity.named
    return names if affinities else None


def _disjoint(target: Affinity, possible: frozenset[str] | None) -> bool:
    if target.named is not None and not target.named:
        return True
    if possible is None:
        return False
    if target.named is not None:
        return not target.named & possible
    return possible <= frozenset(target.exclude)


def _incomplete_weights(change: PolicyChange) -> Iterator[Problem]:
    placement = change.policy.spec.placement
    division = placement.replica_scheduling
    if division is None or not division.by_static_weight or division.weight_preference is None:
        return
    possible = _possible(placement)
    targets = [each.target_cluster for each in division.weight_preference.static_weight_list]
    if possible is None or any(each.named is None for each in targets):
        return
    weighed = frozenset().union(*(each.named or frozenset() for each in targets))
    missing = possible - weighed
    if missing and missing != possible:
        yield Problem(
            f"{_PATH}.weightPreference.staticWeightList", ", ".join(sorted(missing)),
            "the policy names these clusters, and no weight does: they get no replicas",
            "weigh them too, or leave them out of the affinity",
        )  # fmt: skip


RULES: Final = (
    Rule(
        "division-without-effect",
        "A division preference or weights though the type is `Duplicated`.",
        _divided_though_duplicated,
    ),
    Rule(
        "weights-without-effect",
        "Weights that `Aggregated`, or a `dynamicWeight` beside them, makes idle.",
        _weights_ignored,
    ),
    Rule(
        "static-weight-unmatched",
        "A static weight that can match none of the policy's clusters.",
        _unmatched_weight,
    ),
    Rule(
        "static-weight-incomplete",
        "Named clusters without a static weight: they get nothing.",
        _incomplete_weights,
    ),
)
