"""A unit in the engine's words: what both ways of scheduling know of a workload, and the unit beside it."""

from dataclasses import dataclass

from berthmaster.model.kubeadmiral import ClusterSelectorTerm
from berthmaster.model.placement import ClusterAffinity, Placement
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Decision
from berthmaster.scheduling.kubeadmiral.unit import SchedulingUnit
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import requests_of


class UnitPlacement(Placement, frozen=True):
    """What a policy of KubeAdmiral asks of clusters, as far as that says which of them fit.

    Tolerations and the list of clusters are Karmada's: ``clusterTolerations``, ``clusterAffinity.clusterNames``.

    Attributes:
        cluster_selector: labels that a cluster must have.
        required: terms of which one must match; None for no condition.
    """

    cluster_selector: dict[str, str] = {}
    required: tuple[ClusterSelectorTerm, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRequest(Request):
    """A request that was made of a unit.

    Attributes:
        unit: what KubeAdmiral's stages are asked about.
    """

    unit: SchedulingUnit


def request_of(unit: SchedulingUnit) -> UnitRequest:
    """What the engine is asked for a unit.

    A cluster whose number of replicas is not set has all of them. A sticky unit that is placed has no group of
    clusters to try, so that nothing moves.
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
    """The unit that a turn is about.

    Raises:
        TypeError: the request was not made of a unit; KubeAdmiral's stages are for those.
    """
    request = context.request
    if not isinstance(request, UnitRequest):
        raise TypeError(f"a {type(request).__name__} was given to KubeAdmiral's profile; make it with request_of")
    return request.unit


def placed(unit: SchedulingUnit, decision: Decision) -> dict[str, int | None]:
    """Replicas by cluster as KubeAdmiral writes them: None where the mode assigns none."""
    if unit.stays:
        return dict(unit.current)
    return {name: count if unit.divide else None for name, count in decision.assignment.items()}
