"""The clusters that a placement allows, group by group, with what they have together."""

from collections import defaultdict
from collections.abc import Callable, Sequence

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
    found = []
    for name, extends, affinity in terms_of(placement):
        check()
        term = None if affinity is None else AffinityTerm(affinity)
        matching = [each for each in clusters if term is None or term.matches(each)]
        tolerated = [each for each in matching if not repelling_taints(each.spec.taints, placement.cluster_tolerations)]
        remaining = [each for each in tolerated if each.ready and not each.deleting]
        found.append(
            AllowedGroup(
                name=name,
                extends=extends,
                matching=len(matching),
                repelling=len(matching) - len(tolerated),
                unready=len(tolerated) - len(remaining),
                names=sorted(each.name for each in remaining)[:MAX_NAMES],
                resources=_together(services, remaining),
            )
        )
    return found


def _together(services: Services, clusters: Sequence[Cluster]) -> dict[str, FleetAmount]:
    amounts: dict[str, list[FleetAmount]] = defaultdict(list)
    state = services.state
    if knows_bindings(state):
        with state.placed() as index:
            rows = [cluster_row(each, index.use(each.name), reported=state.observed is not None) for each in clusters]
    else:
        rows = [cluster_row(each, None) for each in clusters]
    for row in rows:
        for name, amount in row.resources.items():
            amounts[name].append(amount)
    return {name: sum_of(each) for name, each in sorted(amounts.items())}
