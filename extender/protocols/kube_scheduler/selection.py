"""The nodes that a pod's own spec allows: ``nodeSelector`` and the required node affinity.

kube-scheduler applies both before it calls an extender. They matter for nodes that it did not offer.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError
from berthmaster.model.meta import Value
from berthmaster.model.replicas import PodSpec
from berthmaster.model.selector import NODE_OPERATORS, Requirement, SelectorRequirement, parse_requirements
from berthmaster.scheduling.columns import BoolArray
from berthmaster.scheduling.fleet import Fleet

_NAME: Final = "metadata.name"
"""The only field that a node selector may name (core ``validateNodeFieldSelector``)."""


class _AllowedNodes(Value, frozen=True):
    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


class _RequiredAffinity(Value, frozen=True):
    node_selector_terms: tuple[_AllowedNodes, ...] = ()


def allowed_rows(fleet: Fleet, spec: PodSpec) -> BoolArray:
    """Return the rows of the nodes that the spec of a pod allows."""
    found = np.ones(fleet.capacity, dtype=np.bool_)
    for key, value in (spec.node_selector or {}).items():
        found &= fleet.labels.matching(Requirement(key, "In", frozenset({value})), len(found))
    if spec.required_node_affinity is not None:
        found &= _matching(fleet, spec.required_node_affinity)
    return found


def _matching(fleet: Fleet, affinity: Mapping[str, Any]) -> BoolArray:
    """Return the rows that one of the terms selects. An invalid selector and an empty term select nothing."""
    found = np.zeros(fleet.capacity, dtype=np.bool_)
    try:
        terms = convert(_RequiredAffinity, affinity).node_selector_terms
    except FieldError:
        return found
    for term in terms:
        if term.match_expressions or term.match_fields:
            found |= _selected(fleet, term)
    return found


def _selected(fleet: Fleet, term: _AllowedNodes) -> BoolArray:
    found = np.ones(fleet.capacity, dtype=np.bool_)
    requirements: Sequence[Requirement] | None = parse_requirements(term.match_expressions, NODE_OPERATORS)
    if requirements is None:
        return ~found
    for each in requirements:
        found &= fleet.labels.matching(each, len(found))
    for field in term.match_fields:
        named = np.zeros(len(found), dtype=np.bool_)
        named[[fleet.row_of[name] for name in field.values if name in fleet.row_of]] = True
        known = field.key == _NAME and field.operator in {"In", "NotIn"}
        found &= (named if field.operator == "In" else ~named) if known else np.False_
    return found
