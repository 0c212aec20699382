"""Rules about cluster affinities (karmada ``util.ClusterMatches``)."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from berthmaster.model.affinity import ClusterAffinityTerm
from berthmaster.model.errors import FieldError, shown
from berthmaster.model.policy import PropagationSpec
from berthmaster.model.validation import affinities, label_selector_errors, placement_errors
from webhook.admission.field_problem import ABSENT, FieldProblem
from webhook.admission.placements import matches_every_cluster, named_clusters
from webhook.admission.rules.rule import ReviewedPolicy, about, rule

_GROUPS: Final = "spec.placement.clusterAffinities"


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


def _has_groups(reviewed: ReviewedPolicy) -> bool:
    """Return whether there is a list of groups; it may be empty."""
    return reviewed.policy.spec.placement.cluster_affinities is not None


AFFINITY_RULES: Final = (
    *about(_has_groups, (_unreachable, _repeated, _no_groups)),
    _excluded_by_name,
    _broken_selector,
)
