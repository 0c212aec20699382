"""What a policy asks for, in words."""

from collections.abc import Iterable, Sequence
from typing import Final

from berthmaster.deciding.move_settings import SourceSettings, failback_annotation
from berthmaster.model.affinity import AffinityTerm, ClusterAffinity
from berthmaster.model.division_strategy import Strategy, ignores_constraints, strategy_of
from berthmaster.model.durations import duration_text
from berthmaster.model.errors import FieldError, name_list
from berthmaster.model.move import FAILBACK
from berthmaster.model.placement import Placement, SpreadConstraint
from berthmaster.model.policy import Policy, ResourceSelector
from berthmaster.model.taint import Toleration
from berthmaster.views.texts import count_text

_NAMES: Final = 12
_DIVISIONS: Final = {
    Strategy.DUPLICATED: "Each selected cluster gets all replicas.",
    Strategy.AGGREGATED: "The replicas are divided among as few clusters as can hold them.",
    Strategy.DYNAMIC_WEIGHT: "The replicas are divided in proportion to what each cluster has free.",
    Strategy.STATIC_WEIGHT: "The replicas are divided by fixed weights; without any, each cluster weighs the same.",
    Strategy.UNKNOWN: "The division is not known to this version.",
}


def selector_text(selector: ResourceSelector) -> str:
    """Return what a selector selects, such as ``apps/v1 Deployment shop/web`` or ``v1 ConfigMap, tier=web``."""
    what = f"{selector.api_version} {selector.kind}"
    if selector.name:
        return f"{what} {'/'.join(filter(None, (selector.namespace, selector.name)))}"
    parts = [f"namespace {selector.namespace}"] if selector.namespace else []
    labels = selector.label_selector
    if labels is not None:
        requirements = labels.requirements()
        parts += ["an invalid label selector"] if requirements is None else map(str, requirements)
    return ", ".join([what, *parts])


def affinity_words(affinity: ClusterAffinity | None) -> str:
    """Return which clusters an affinity matches; None matches all."""
    if affinity is None:
        return "Every cluster."
    term = AffinityTerm(affinity)
    if term.invalid:
        return "No cluster: it has an invalid selector."
    parts = [f"label {each}" for each in term.labels]
    parts += [str(each) for each in (*term.fields, *term.zones)]
    words = f"Clusters with {' and '.join(parts)}" if parts else "Every cluster"
    if affinity.cluster_names:
        names = name_list(affinity.cluster_names, _NAMES)
        words = f"{words}, of {names}" if parts else f"The clusters {names}"
    return f"{words}{f', except {name_list(affinity.exclude, _NAMES)}' if affinity.exclude else ''}."


def toleration_words(tolerations: Iterable[Toleration]) -> list[str]:
    return [_toleration(each) for each in tolerations]


def _toleration(toleration: Toleration) -> str:
    taint = toleration.key or "every key"
    if toleration.operator in {"", "Equal"}:
        taint += f"={toleration.value}"
    effect = toleration.effect or "every effect"
    seconds = toleration.toleration_seconds
    return f"{taint}:{effect}{'' if seconds is None else f', for {duration_text(seconds)}'}"


def spread_words(placement: Placement) -> list[str]:
    """Return over how many clusters, regions, zones or providers a workload spreads."""
    constraints = placement.spread_constraints
    if not constraints:
        return ["It does not limit how many clusters are selected."]
    words = [_constraint(each) for each in constraints]
    if ignores_constraints(placement.replica_scheduling):
        words.append("The spread constraints have no effect, because the weights are fixed.")
    return words


def _constraint(constraint: SpreadConstraint) -> str:
    noun = constraint.spread_by_field or "group"
    where = noun if constraint.spread_by_field else f"the label {constraint.spread_by_label}"
    least, most = constraint.min_groups, constraint.max_groups
    if least == most and least:
        return f"Spread by {where}: exactly {count_text(least, noun)}."
    limits = [f"at least {count_text(least, noun)}"] if least else []
    limits += [f"at most {count_text(most, noun)}"] if most else []
    return f"Spread by {where}: {' and '.join(limits) or 'no limit'}."


def division_words(placement: Placement) -> list[str]:
    """Return how replicas are divided among the selected clusters, and what workloads are kept together or apart."""
    scheduling = placement.replica_scheduling
    words = [_DIVISIONS[strategy_of(scheduling)]]
    preference = scheduling.weight_preference if scheduling is not None else None
    if strategy_of(scheduling) is Strategy.STATIC_WEIGHT and preference is not None:
        words += [
            f"Weight {each.weight}: {affinity_words(each.target_cluster)}" for each in preference.static_weight_list
        ]
    affinity = placement.workload_affinity
    if affinity is not None and affinity.affinity is not None:
        words.append(f"Workloads with one value of the label {affinity.affinity.group_by_label_key} stay together.")
    if affinity is not None and affinity.anti_affinity is not None:
        key = affinity.anti_affinity.group_by_label_key
        words.append(f"Workloads with one value of the label {key} run on different clusters.")
    return words


def failback_words(policy: Policy, default: str | None) -> str:
    """Return whether workloads move back to an earlier group."""
    if len(policy.spec.placement.cluster_affinities or ()) < 2:
        return "There is no earlier group to move back to."
    annotation = policy.metadata.annotations.get(FAILBACK)
    if annotation is None:
        known = "is not known" if default is None else f"is {default}"
        return f"The policy does not say. The configuration of the controllers decides; its default {known}."
    try:
        asked = failback_annotation(annotation, SourceSettings())
    except FieldError as error:
        return f"The annotation {FAILBACK} is invalid: {error}."
    match asked.mode:
        case "Off":
            return "Workloads do not move back to an earlier group."
        case "DryRun":
            return "Failbacks to an earlier group are shown, and do not happen."
        case "On":
            return (
                f"Workloads move back to an earlier group once it could hold them for {duration_text(asked.after_s)}, "
                f"with {asked.headroom_percent} % to spare."
            )


def terms_of(placement: Placement) -> Sequence[tuple[str, str, ClusterAffinity | None]]:
    """Return the groups of a placement in order: the name, the group that it extends, and its affinity.

    A placement without groups has one without a name. If a placement has a single affinity as well, the affinity
    decides which clusters fit in each group.
    """
    single, terms = placement.cluster_affinity, placement.cluster_affinities
    if terms is None:
        return [("", "", single)]
    found: list[tuple[str, str, ClusterAffinity | None]] = []
    for term in terms:
        found.append((term.affinity_name, "", single or term))
        if single is None:
            found += [(each.affinity_name, term.affinity_name, each) for each in term.overflow_affinities or ()]
    return found
