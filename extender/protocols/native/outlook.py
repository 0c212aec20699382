"""``/v1/bindings/.../outlook``: what each group of a binding could hold now."""

from collections.abc import Collection

from berthmaster.model.binding import Binding
from berthmaster.model.errors import name_list, shown
from berthmaster.model.gaps import about
from berthmaster.model.move import move_of, move_problem
from berthmaster.model.unsupported import unsupported_parts
from berthmaster.native_api.outlook import BindingOutlook, FreeAmount, Room
from berthmaster.native_api.wire import BindingView, InvalidField
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.eligibility import due, move_note
from berthmaster.simulation.group_outlook import MAX_GROUPS, Outlook, outlook
from extender.protocols.native.bindings import require_binding
from extender.protocols.native.fleet import staleness_of
from extender.protocols.native.fleet_view import amounts
from extender.protocols.native.schedule import require_explicable
from extender.protocols.problem import Refusal
from extender.protocols.services import Services

_NO_PLACEMENT = "the binding has no placement: no scheduler decides about it"


def binding_outlook(
    services: Services, namespace: str, name: str, group: str | None, most: int | None = None
) -> BindingOutlook:
    """Return what each group of a binding could hold, and the state of its move."""
    state, found = services.state, require_binding(services, namespace, name)
    binding = found.workload.binding
    if binding is None:
        raise Refusal(404, f"{found.workload} has no binding")
    index = _index_of(binding, group)
    with state.reading() as cache:
        if index is not None:
            require_explicable(binding, len(cache.fleet))
        looked = _looked(cache.scheduler, binding, index, most)
    stored = found.stored or binding
    notes = [each for each in (looked.problem, move_problem(stored)) if each]
    move = move_of(stored)
    return BindingOutlook(
        looked.groups,
        looked.diagnosis,
        move,
        move_note(stored) if move is not None else "",
        notes,
        state.gaps(about(namespace)),
        staleness_of(state.freshness),
    )


def room_of(services: Services, view: BindingView, tried: Collection[str | None]) -> Room | None:
    """Return the most that one cluster has free, if replicas have no place.

    Args:
        tried: the names of the groups that the decision tried.
    """
    state, binding = services.state, require_binding(services, view.namespace, view.name).workload.binding
    if binding is None or not view.requests or (view.clusters and sum(view.clusters.values()) >= view.replicas):
        return None
    with state.reading() as cache:
        scheduler, fleet = cache.scheduler, cache.fleet
        request = Request.of(due(binding, fleet).binding)
        groups = [each for each in scheduler.compile(request.placement).groups if each.name in tried] if tried else []
        rows = {row for group in groups for row in scheduler.fitting(request, group).tolist()}
        found = [fleet.clusters[row] for row in rows] if rows else fleet.clusters
        ready = [each for each in found if each is not None and each.ready]
    free: dict[str, FreeAmount] = {}
    with state.placed() as index:
        for cluster in ready:
            use = index.use(cluster.name) if state.observed is not None else None
            for name, each in amounts(cluster, use, view.requests).items():
                if each.used is None:
                    continue
                one = FreeAmount(cluster.name, each.allocatable - each.used - (each.assumed or 0))
                known = free.get(name)
                if known is None or (one.amount, one.cluster) > (known.amount, known.cluster):
                    free[name] = one
    return Room(bool(rows), free)


def _looked(scheduler: Scheduler, binding: Binding, index: int | None, most: int | None) -> Outlook:
    base = due(binding, scheduler.fleet).binding
    if base.spec.placement is None:
        return Outlook([], problem=_NO_PLACEMENT)
    if unknown := unsupported_parts(base.spec.placement):
        return Outlook([], problem=f"groups are not tried: a part of the placement is not known: {'; '.join(unknown)}")
    return outlook(scheduler, Request.of(base), index, most)


def _index_of(binding: Binding, group: str | None) -> int | None:
    if group is None:
        return None
    placement = binding.spec.placement
    terms = placement.cluster_affinities if placement is not None else None
    names = [""] if terms is None else [each.affinity_name for each in terms[:MAX_GROUPS]]
    if group in names:
        return names.index(group)
    known = f"; known are {name_list(names)}" if terms else ""
    problem = f"there is no group {shown(group)}{known}"
    raise Refusal(404, f"query parameter group: {problem}", errors=[InvalidField("?group", problem)])
