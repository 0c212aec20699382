"""Rules about affinities and groups (karmada ``util.ClusterMatches``, the walk over ``clusterAffinities``)."""

from collections.abc import Iterator
from typing import Final

from berthmaster.model.selector import LABEL_OPERATORS, NODE_OPERATORS, SelectorRequirement, requirement_problem
from webhook.admission.karmada.policy import Affinity, Group, Labels, Placement, Requirement
from webhook.admission.problem import ABSENT, Problem
from webhook.admission.rules.rule import PolicyChange, Rule


def _unreachable(change: PolicyChange) -> Iterator[Problem]:
    first_open = ""
    for index, group in enumerate(change.policy.spec.placement.cluster_affinities or ()):
        if first_open:
            yield Problem(
                f"spec.placement.clusterAffinities[{index}]", group.affinity_name,
                f"group {first_open!r} before it accepts every cluster, so this one is never reached",
                "put the open group last, or restrict it",
            )  # fmt: skip
        elif group.empty:
            first_open = group.affinity_name


def _repeated(change: PolicyChange) -> Iterator[Problem]:
    seen: dict[tuple[object, ...], str] = {}
    for index, group in enumerate(change.policy.spec.placement.cluster_affinities or ()):
        meaning = _meaning(group)
        if meaning in seen and not group.empty:
            yield Problem(
                f"spec.placement.clusterAffinities[{index}]", group.affinity_name,
                f"it means the same clusters as group {seen[meaning]!r}, which fails first whenever this one would",
                "change or remove one of them",
            )  # fmt: skip
        seen.setdefault(meaning, group.affinity_name)


def _meaning(group: Group) -> tuple[object, ...]:
    # The text of selectors stands for them: two spellings of one selector are no matter for a warning.
    overflow = [
        (str(each.label_selector), str(each.field_selector), each.named) for each in group.overflow_affinities or ()
    ]
    selectors = (str(group.label_selector), str(group.field_selector))
    return (*selectors, frozenset(group.cluster_names), frozenset(group.exclude), tuple(overflow))


def _no_groups(change: PolicyChange) -> Iterator[Problem]:
    if change.policy.spec.placement.cluster_affinities == ():
        yield Problem(
            "spec.placement.clusterAffinities", "[]", "an empty list lets scheduling succeed without placing anything",
            "list a group, or remove the field to allow every cluster",
        )  # fmt: skip


def _excluded_by_name(change: PolicyChange) -> Iterator[Problem]:
    for path, affinity in _affinities(change.policy.spec.placement):
        both = sorted(frozenset(affinity.cluster_names) & frozenset(affinity.exclude))
        if both:
            fate = "the affinity means no cluster at all" if not affinity.named else "exclusion wins"
            yield Problem(
                f"{path}.exclude", ", ".join(both), f"named in clusterNames and excluded as well: {fate}",
                "take the names out of one of the lists",
            )  # fmt: skip


def _broken_selector(change: PolicyChange) -> Iterator[Problem]:
    for path, affinity in _affinities(change.policy.spec.placement):
        yield from broken_labels(f"{path}.labelSelector", affinity.label_selector)
        fields = affinity.field_selector.match_expressions if affinity.field_selector is not None else ()
        for index, expression in enumerate(fields):
            if expression.key != "zone":
                yield from _broken(f"{path}.fieldSelector.matchExpressions[{index}]", expression, NODE_OPERATORS)
    for index, selector in enumerate(change.policy.spec.resource_selectors):
        yield from broken_labels(f"spec.resourceSelectors[{index}].labelSelector", selector.label_selector)


def broken_labels(path: str, selector: Labels | None) -> Iterator[Problem]:
    """What makes a label selector match nothing."""
    if selector is None:
        return
    for key, value in selector.match_labels.items():
        yield from _broken(f"{path}.matchLabels[{key}]", Requirement(key, "In", (value,)), LABEL_OPERATORS)
    for index, expression in enumerate(selector.match_expressions):
        yield from _broken(f"{path}.matchExpressions[{index}]", expression, LABEL_OPERATORS)


def _broken(path: str, requirement: Requirement, operators: tuple[str, ...]) -> Iterator[Problem]:
    expression = SelectorRequirement(key=requirement.key, operator=requirement.operator, values=requirement.values)
    problem = requirement_problem(expression, operators)
    if problem is not None:
        yield Problem(path, ABSENT, f"{problem}: the whole selector matches nothing", "correct the expression")


def _affinities(placement: Placement) -> Iterator[tuple[str, Affinity]]:
    if placement.cluster_affinity is not None:
        yield "spec.placement.clusterAffinity", placement.cluster_affinity
    for index, group in enumerate(placement.cluster_affinities or ()):
        path = f"spec.placement.clusterAffinities[{index}]"
        yield path, group
        for place, overflow in enumerate(group.overflow_affinities or ()):
            yield f"{path}.overflowAffinities[{place}]", overflow
    division = placement.replica_scheduling
    weights = (
        division.weight_preference.static_weight_list if division is not None and division.weight_preference else ()
    )
    for index, weight in enumerate(weights):
        path = f"spec.placement.replicaScheduling.weightPreference.staticWeightList[{index}].targetCluster"
        yield path, weight.target_cluster


RULES: Final = (
    Rule("group-unreachable", "A group after one that accepts every cluster.", _unreachable),
    Rule("group-repeated", "A group that means the same clusters as an earlier one.", _repeated),
    Rule("groups-empty", "An empty list of groups, which places nothing and reports success.", _no_groups),
    Rule("cluster-named-and-excluded", "A cluster in both `clusterNames` and `exclude`.", _excluded_by_name),
    Rule(
        "selector-broken",
        "A label or field selector that is invalid and so matches nothing.",
        _broken_selector,
    ),
)
