"""The clusters that a placement allows, group by group, with what they have together."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from berthmaster.model.cluster import Cluster, repelling_taints
from berthmaster.model.placement import AffinityTerm, Placement
from berthmaster.native_api.fleet import FleetAmount, sum_of
from berthmaster.native_api.why import MAX_NAMES, AllowedGroup
from berthmaster.views.placement_words import terms_of
from extender.protocols.native.fleet_view import cluster_row, knows_bindings
from extender.protocols.services import Services


def allowed_groups(
    services: Services, placement: Placement, clusters: Sequence[Cluster], check: Callable[[], None]
) -> list[AllowedGroup]:
    """Return what each group of a placement allows.

    Args:
        services: what is assigned to clusters.
        placement: the placement, with its defaults.
        clusters: the fleet.
        check: called for each group; an exception that it raises ends the call.
    """
    chosen = []
    for name, extends, affinity in terms_of(placement):
        check()
        term = None if affinity is None else AffinityTerm(affinity)
        matching = [each for each in clusters if term is None or term.matches(each)]
        tolerated = [each for each in matching if not repelling_taints(each.spec.taints, placement.cluster_tolerations)]
        remaining = [each for each in tolerated if each.ready and not each.deleting]
        chosen.append((name, extends, len(matching), len(tolerated), remaining))
    resources = _resources(services, {each.name: each for *_, remaining in chosen for each in remaining}.values())
    return [
        AllowedGroup(
            name=name,
            extends=extends,
            matching=matching,
            repelling=matching - tolerated,
            unready=tolerated - len(remaining),
            names=sorted(each.name for each in remaining)[:MAX_NAMES],
            resources=_together(resources[each.name] for each in remaining),
        )
        for name, extends, matching, tolerated, remaining in chosen
    ]


def _resources(services: Services, clusters: Iterable[Cluster]) -> Mapping[str, Mapping[str, FleetAmount]]:
    """Return the resources of clusters, by the name of the cluster."""
    state = services.state
    if not knows_bindings(state):
        return {each.name: cluster_row(each, None).resources for each in clusters}
    reported = state.observed is not None
    with state.placed() as index:
        return {each.name: cluster_row(each, index.use(each.name), reported=reported).resources for each in clusters}


def _together(clusters: Iterable[Mapping[str, FleetAmount]]) -> dict[str, FleetAmount]:
    amounts: dict[str, list[FleetAmount]] = defaultdict(list)
    for resources in clusters:
        for name, amount in resources.items():
            amounts[name].append(amount)
    return {name: sum_of(each) for name, each in sorted(amounts.items())}
