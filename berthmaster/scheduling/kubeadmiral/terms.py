"""Cluster selector terms: alternatives, each a conjunction of expressions over labels and fields.

Karmada's affinities use the same requirements and indexes, but differ. There a field is a provider, region or zone,
here it is the name. There an invalid expression matches nothing, here it invalidates its term and all later terms.
"""

from collections.abc import Iterable
from functools import reduce

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.model.kubeadmiral import ClusterSelectorTerm
from berthmaster.model.selector import (
    NODE_OPERATORS,
    Requirement,
    SelectorRequirement,
    parse_requirements,
    requirement_error,
)
from berthmaster.scheduling.columns import BoolArray
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.scores import UnscorableError

_NAME_FIELD = "metadata.name"


class InvalidTermError(UnscorableError):
    """A requirement is invalid. A filter rejects the cluster, a score fails."""


def any_matches(terms: Iterable[ClusterSelectorTerm], cluster: Cluster) -> bool:
    """Return whether one of the terms matches a cluster. An empty term matches none.

    Raises:
        InvalidTermError: a requirement that was evaluated before a match is invalid.
    """
    return any(_matches(term, cluster) for term in terms)


def rows_matching(terms: Iterable[ClusterSelectorTerm], fleet: Fleet) -> BoolArray:
    """Return a mask of the rows that a term matches before an invalid requirement is evaluated."""
    matched, reaching = np.zeros(fleet.capacity, dtype=np.bool_), np.ones(fleet.capacity, dtype=np.bool_)
    for term in terms:
        if not term.match_expressions and not term.match_fields:
            continue
        try:
            by_labels = labels_matching(term, fleet)
        except InvalidTermError:
            break
        if any(_field_problem(each) is not None for each in term.match_fields):
            reaching &= ~by_labels
            continue
        by_fields = [_field_matching(each, fleet) for each in term.match_fields]
        matched |= reduce(np.logical_and, by_fields, reaching & by_labels)
    return matched


def labels_matching(term: ClusterSelectorTerm, fleet: Fleet) -> BoolArray:
    """Return a mask of the rows whose labels satisfy all expressions of a term."""
    mask = np.ones(fleet.capacity, dtype=np.bool_)
    for requirement in _requirements(term.match_expressions):
        mask &= fleet.labels.matching(requirement, fleet.capacity)
    return mask


def _matches(term: ClusterSelectorTerm, cluster: Cluster) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    labels = cluster.metadata.labels
    if not all(each.matches(labels) for each in _requirements(term.match_expressions)):
        return False
    return _fields_match(term.match_fields, cluster)


def _requirements(expressions: tuple[SelectorRequirement, ...]) -> tuple[Requirement, ...]:
    requirements = parse_requirements(expressions, NODE_OPERATORS)
    if requirements is None:
        errors = (requirement_error(each, NODE_OPERATORS) for each in expressions)
        raise InvalidTermError(next(error.problem for error in errors if error is not None))
    return requirements


def _fields_match(expressions: tuple[SelectorRequirement, ...], cluster: Cluster) -> bool:
    """Return whether all expressions match. Validate all of them before any is evaluated."""
    for each in expressions:
        problem = _field_problem(each)
        if problem is not None:
            raise InvalidTermError(problem)
    return all(_field_matches(each, cluster.name) for each in expressions)


def _field_problem(expression: SelectorRequirement) -> str | None:
    if expression.operator in {"In", "NotIn"} and len(expression.values) == 1:
        return None
    return f"field {expression.key} takes In or NotIn with exactly one value"


def _field_matches(expression: SelectorRequirement, name: str) -> bool:
    """Evaluate an expression. Only the name has a value, all other fields are empty."""
    actual = name if expression.key == _NAME_FIELD else ""
    return (actual == expression.values[0]) == (expression.operator == "In")


def _field_matching(expression: SelectorRequirement, fleet: Fleet) -> BoolArray:
    """Return a mask of the rows that an expression matches. At most one row has the name in the expression."""
    mask = np.full(fleet.capacity, _field_matches(expression, ""), dtype=np.bool_)
    row = fleet.row_of.get(expression.values[0]) if expression.key == _NAME_FIELD else None
    if row is not None:
        mask[row] = expression.operator == "In"
    return mask
