"""``/v1/bindings/...``: a binding, the decision on it, and what each of its groups could hold."""

from collections.abc import Collection
from typing import Final

import msgspec
from msgspec.structs import replace

from berthmaster.kube.kinds import BINDINGS
from berthmaster.model.binding import Binding, TargetCluster
from berthmaster.model.errors import name_list, shown
from berthmaster.model.gaps import about
from berthmaster.model.move import move_of, move_problem
from berthmaster.model.unsupported import unsupported_parts
from berthmaster.native_api.why import BindingOutlook, FreeAmount, Room
from berthmaster.native_api.wire import (
    BindingExplanation,
    BindingView,
    EvictionTaskView,
    InvalidField,
    RequiringBinding,
    ResourceView,
)
from berthmaster.scheduling.diagnosis import MAX_GROUPS, Outlook, outlook
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.eligibility import due, move_note
from berthmaster.simulation.report import explanation
from berthmaster.simulation.run import examine, present
from berthmaster.simulation.workload import NO_COMPANIONS, companions
from berthmaster.simulation.world import World
from extender.protocols.native.fleet import amounts
from extender.protocols.native.parameters import count, text
from extender.protocols.native.schedule import require_explicable, require_watched
from extender.protocols.problem import Refusal
from extender.protocols.services import Services
from extender.state.workloads import WatchedWorkload

_NO_PLACEMENT = "the binding has no placement: no scheduler decides about it"


Key = tuple[str, str]
"""The namespace and the name of a binding; an empty namespace for a cluster-scoped one."""
PARAMETERS: Final = {
    "group": text("Explain each cluster in this group; empty for a placement without groups."),
    "clusters": count("The most clusters of each stage of a group; the others are counted. All by default.", 5000),
}


def require_binding(services: Services, key: Key) -> WatchedWorkload:
    """Return a binding of the service with its workload."""
    require_watched(services, BINDINGS, subject="the bindings of the control plane are")
    namespace, name = key
    found = services.state.workload(key)
    if found is None:
        raise Refusal(404, f"there is no binding {shown(f'{namespace}/{name}' if namespace else name)}")
    return found


def explained(services: Services, key: Key, most: int | None = None) -> BindingExplanation:
    """Return what the scheduler would decide now on a binding, and why; of ``most`` clusters in each list."""
    state, found = services.state, require_binding(services, key)
    workload, now = found.workload, services.clock.now()
    with state.reading() as cache:
        if workload.binding is not None:
            require_explicable(workload.binding, len(cache.fleet))
        outcome = examine(cache.scheduler, workload, now, most=most)
        cache.restore_peers(workload)
    if found.related is not None:
        followed = companions([outcome.workload, *found.related]).get(0, NO_COMPANIONS)
        outcome = replace(outcome, companions=followed)
    answer = explanation(outcome, present(World({}, [workload]))[0])
    gaps = state.gaps(about(key[0]))
    return BindingExplanation(**msgspec.structs.asdict(answer), gaps=gaps, staleness=state.staleness)


def described(services: Services, key: Key) -> BindingView:
    """Return a binding as the service knows it, without a decision."""
    found = require_binding(services, key)
    workload, binding = found.workload, found.stored or found.workload.binding
    if binding is None:
        raise Refusal(404, f"{workload} has no binding")
    spec, status, resource = binding.spec, binding.status, binding.spec.resource
    placement = spec.placement
    groups = placement.cluster_affinities if placement is not None else None
    return BindingView(
        kind=binding.kind,
        namespace=binding.metadata.namespace,
        name=binding.metadata.name,
        present=workload.present,
        deleting=binding.metadata.deletion_timestamp is not None,
        resource=ResourceView(resource.api_version, resource.kind, resource.namespace, resource.name),
        policy=str(workload.held_by) if workload.held_by is not None else None,
        scheduler=binding.scheduler if placement is not None else None,
        suspended=binding.suspended,
        replicas=spec.replicas,
        groups=None if groups is None else [each.affinity_name for each in groups],
        observed_group=status.scheduler_observing_affinity_name or None,
        clusters=_replicas_by_cluster(spec.clusters),
        eviction_tasks=[
            msgspec.convert(each, EvictionTaskView, from_attributes=True) for each in spec.graceful_eviction_tasks
        ],
        required_by=[
            RequiringBinding(each.namespace, each.name, _replicas_by_cluster(each.clusters))
            for each in spec.required_by
        ],
        conditions=list(status.conditions),
        last_scheduled_time=status.last_scheduled_time,
        notes=list(workload.notes),
        gaps=services.state.gaps(about(key[0])),
        staleness=services.state.staleness,
        requests=spec.replica_requirements.resource_request if spec.replica_requirements is not None else {},
    )


def _replicas_by_cluster(clusters: tuple[TargetCluster, ...]) -> dict[str, int]:
    return {each.name: each.replicas for each in clusters}


def binding_outlook(services: Services, key: Key, group: str | None, most: int | None = None) -> BindingOutlook:
    """Return what each group of a binding could hold, and the state of its move."""
    state, found = services.state, require_binding(services, key)
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
        state.gaps(about(key[0])),
        state.staleness,
    )


def room_of(services: Services, view: BindingView, tried: Collection[str | None]) -> Room | None:
    """Return the most that one cluster of the ``tried`` groups has free, if replicas have no place."""
    state, binding = services.state, require_binding(services, (view.namespace, view.name)).workload.binding
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
