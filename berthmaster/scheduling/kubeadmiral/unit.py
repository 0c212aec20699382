"""The scheduling unit: an object, what its policy asks for, and its current clusters. Requests are made from it.

Cluster selector terms: alternatives, each a conjunction of expressions over labels and fields.

Karmada's affinities use the same requirements and indexes, but differ. There a field is a provider, region or zone,
here it is the name. There an invalid expression matches nothing, here it invalidates its term and all later terms.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import reduce
from typing import Final

import numpy as np

from berthmaster.model.affinity import ClusterAffinity
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import FieldError
from berthmaster.model.kubeadmiral.limits import kubeadmiral_excess
from berthmaster.model.kubeadmiral.policies import ClusterSelectorTerm, DesiredPlacement, KubeAdmiralSpec
from berthmaster.model.placement import Placement
from berthmaster.model.placement_limits import PlacementLimits, placement_excess
from berthmaster.model.quantity import Quantity
from berthmaster.model.selector import (
    NODE_OPERATORS,
    Requirement,
    SelectorRequirement,
    parse_requirements,
    requirement_error,
)
from berthmaster.model.taint import Toleration
from berthmaster.scheduling.columns import BoolArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Decision
from berthmaster.scheduling.filters import UnscorableError
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import requests_of

GPU = "nvidia.com/gpu"
PART_NAMES: Final = {"minimum": "minReplicas", "maximum": "maxReplicas", "weight": "weight", "priority": "priority"}
_NAME_FIELD = "metadata.name"


class ReplicasStrategy(Enum):
    """How replicas are divided in Divide mode."""

    SPREAD = "Spread"
    BINPACK = "Binpack"


@dataclass(frozen=True, slots=True)
class Preference:
    """The preferences of a policy for one cluster. None means not set."""

    minimum: int = 0
    maximum: int | None = None
    weight: int | None = None
    priority: int | None = None


NO_PREFERENCE: Final = Preference()


@dataclass(frozen=True, slots=True)
class SchedulingUnit:
    """One object.

    Attributes:
        divide: replicas are divided. Otherwise every cluster gets all of them.
        requests: what a replica requests. KubeAdmiral considers GPUs only.
        required: terms of which one must match. None for no condition.
        preferred: terms with the weight that a match adds to the score.
        candidates: the clusters that may be selected. Empty for all.
        sticky: once scheduled, the assignment stays.
        keep_unschedulable: replicas that cannot be scheduled still count for their cluster.
        scheduled: replicas by cluster that auto-migration observed to be scheduled.
    """

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    divide: bool = False
    replicas: int = 0
    requests: Mapping[str, Quantity] = field(default_factory=dict)
    current: Mapping[str, int | None] = field(default_factory=dict)
    strategy: ReplicasStrategy = ReplicasStrategy.SPREAD
    cluster_selector: Mapping[str, str] = field(default_factory=dict)
    required: tuple[ClusterSelectorTerm, ...] | None = None
    preferred: tuple[tuple[int, ClusterSelectorTerm], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    max_clusters: int | None = None
    candidates: frozenset[str] = frozenset()
    preferences: Mapping[str, Preference] = field(default_factory=dict)
    sticky: bool = False
    avoid_disruption: bool = False
    keep_unschedulable: bool = False
    estimated_capacity: Mapping[str, int] = field(default_factory=dict)
    scheduled: Mapping[str, int] = field(default_factory=dict)
    limited_capacity: Mapping[str, int] = field(default_factory=dict)
    evicted: frozenset[str] = frozenset()
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The key that breaks ties between clusters: ``namespace/name``, or the name alone."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def stays(self) -> bool:
        """Whether it is sticky and has clusters, so that nothing is decided again."""
        return self.sticky and bool(self.current)

    def preference(self, cluster: str) -> Preference:
        return self.preferences.get(cluster, NO_PREFERENCE)


class UnitPlacement(Placement, frozen=True):
    """The part of a KubeAdmiral policy that determines which clusters fit.

    Tolerations and the list of clusters use the fields ``clusterTolerations`` and ``clusterAffinity.clusterNames``.
    """

    cluster_selector: dict[str, str] = {}
    required: tuple[ClusterSelectorTerm, ...] | None = None


def unit_excess(placement: Placement, limits: PlacementLimits) -> list[FieldError]:
    """Return what exceeds the limits in the placement of a unit. Paths are those of a KubeAdmiral policy's spec."""
    if not isinstance(placement, UnitPlacement):
        return placement_excess(placement, limits)
    affinity = placement.cluster_affinity
    spec = KubeAdmiralSpec(
        cluster_selector=placement.cluster_selector,
        cluster_affinity=placement.required or (),
        tolerations=placement.cluster_tolerations,
        placement=tuple(map(DesiredPlacement, affinity.cluster_names)) if affinity is not None else (),
    )
    return kubeadmiral_excess(spec, limits)


class UnitRequest(Request, frozen=True, kw_only=True):
    """A request with its unit, which KubeAdmiral's stages read."""

    unit: SchedulingUnit


def request_of(unit: SchedulingUnit) -> UnitRequest:
    """Make the request for a unit.

    A current cluster without a number of replicas has all of them. A sticky unit with clusters has no group to try, so
    that its assignment stays.
    """
    return UnitRequest(
        name=unit.name,
        namespace=unit.namespace,
        api_version=unit.api_version,
        kind=unit.kind,
        placement=UnitPlacement(
            cluster_affinity=ClusterAffinity(cluster_names=tuple(sorted(unit.candidates))) if unit.candidates else None,
            cluster_affinities=() if unit.stays else None,
            cluster_tolerations=unit.tolerations,
            cluster_selector=dict(unit.cluster_selector),
            required=unit.required,
        ),
        replicas=unit.replicas,
        requests=requests_of(unit.requests),
        current={name: unit.replicas if count is None else count for name, count in unit.current.items()},
        evicted_from=unit.evicted,
        fresh=not unit.avoid_disruption,
        is_workload=unit.divide,
        unit=unit,
    )


def unit_of(context: Context) -> SchedulingUnit:
    """Return the unit of a request. Raises ``TypeError`` if the request was not made by ``request_of``."""
    request = context.request
    if not isinstance(request, UnitRequest):
        raise TypeError(f"a {type(request).__name__} was given to KubeAdmiral's profile; make it with request_of")
    return request.unit


def placed(unit: SchedulingUnit, decision: Decision) -> dict[str, int | None]:
    """Return replicas by cluster as KubeAdmiral writes them: None in a mode that assigns no numbers."""
    if unit.stays:
        return dict(unit.current)
    return {name: count if unit.divide else None for name, count in decision.assignment.items()}


Parts = Mapping[str, Mapping[str, int]]
"""For each field of a Preference, numbers by cluster. Clusters without a number are left out."""


def parts_of(placement: Iterable[DesiredPlacement]) -> Parts:
    """Return the preferences by field. If a cluster is listed twice, the last entry counts."""
    parts: dict[str, dict[str, int]] = {name: {} for name in PART_NAMES}
    for entry in placement:
        given = entry.preferences
        numbers = given.min_replicas or 0, given.max_replicas, given.weight, given.priority
        for numbers_of, number in zip(parts.values(), numbers, strict=True):
            if number is not None:
                numbers_of[entry.cluster] = number
    return parts


def preferences_of(parts: Parts) -> dict[str, Preference]:
    """Return the preferences by cluster."""
    clusters = {cluster for numbers in parts.values() for cluster in numbers}
    return {
        cluster: Preference(**{name: numbers[cluster] for name, numbers in parts.items() if cluster in numbers})
        for cluster in clusters
    }


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
