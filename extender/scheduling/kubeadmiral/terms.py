"""Cluster selector terms: ORed, each a conjunction of expressions over labels and fields."""

from collections.abc import Iterable

from fleet.model.cluster import Cluster
from fleet.model.kubeadmiral import ClusterSelectorTerm
from fleet.model.selector import NODE_OPERATORS, SelectorRequirement, parse_requirements, requirement_problem

_NAME_FIELD = "metadata.name"


class InvalidTermError(Exception):
    """A requirement does not validate; whoever asked decides what that means."""


def any_matches(terms: Iterable[ClusterSelectorTerm], cluster: Cluster) -> bool:
    """Whether one of the terms means a cluster; an empty term means none.

    Raises:
        InvalidTermError: a requirement that was reached before a match is invalid.
    """
    return any(_matches(term, cluster) for term in terms)


def labels_match(term: ClusterSelectorTerm, cluster: Cluster) -> bool:
    """Whether the label expressions of a term mean a cluster; none at all mean no cluster."""
    return bool(term.match_expressions) and _labels_match(term.match_expressions, cluster)


def _matches(term: ClusterSelectorTerm, cluster: Cluster) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return _labels_match(term.match_expressions, cluster) and _fields_match(term.match_fields, cluster)


def _labels_match(expressions: tuple[SelectorRequirement, ...], cluster: Cluster) -> bool:
    requirements = parse_requirements(expressions, NODE_OPERATORS)
    if requirements is None:
        problem = next(filter(None, (requirement_problem(each, NODE_OPERATORS) for each in expressions)))
        raise InvalidTermError(problem)
    return all(each.matches(cluster.metadata.labels) for each in requirements)


def _fields_match(expressions: tuple[SelectorRequirement, ...], cluster: Cluster) -> bool:
    """All are looked at before any is compared: one invalid expression spoils the others."""
    for each in expressions:
        if each.operator not in {"In", "NotIn"} or len(each.values) != 1:
            raise InvalidTermError(f"field {each.key} takes In or NotIn with exactly one value")
    return all(_field_matches(each, cluster) for each in expressions)


def _field_matches(expression: SelectorRequirement, cluster: Cluster) -> bool:
    """Only the name carries data; any other field reads as empty."""
    actual = cluster.name if expression.key == _NAME_FIELD else ""
    return (actual == expression.values[0]) == (expression.operator == "In")
