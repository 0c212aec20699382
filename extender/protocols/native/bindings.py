"""``/v1/bindings/...``: a binding as the service knows it, and the decision on it."""

from dataclasses import replace

import msgspec.structs

from berthmaster.kube.kinds import BINDINGS
from berthmaster.model.binding import Binding, GracefulEvictionTask, TargetCluster
from berthmaster.model.errors import shown
from berthmaster.model.gaps import about
from berthmaster.native_api.wire import (
    BindingExplanation,
    BindingView,
    EvictionTaskView,
    RequiringBinding,
    ResourceView,
)
from berthmaster.simulation.report import explanation
from berthmaster.simulation.run import examine, present
from berthmaster.simulation.workload import NO_COMPANIONS, SimulatedWorkload, companions
from berthmaster.simulation.world import World
from extender.protocols.native.fleet import staleness_of
from extender.protocols.native.schedule import require_explicable, require_watched
from extender.protocols.problem import Refusal
from extender.protocols.services import Services
from extender.state.state import Freshness
from extender.state.workloads import WatchedWorkload


def require_binding(services: Services, namespace: str, name: str) -> WatchedWorkload:
    """Return a binding of the service with its workload."""
    require_watched(services, BINDINGS, subject="the bindings of the control plane are")
    found = services.state.workload((namespace, name))
    if found is None:
        raise Refusal(404, f"there is no binding {shown(f'{namespace}/{name}' if namespace else name)}")
    return found


def explained(services: Services, namespace: str, name: str, most: int | None = None) -> BindingExplanation:
    """Return what the scheduler would decide now on a binding of the service, and why.

    With ``most``, the groups of the explanation are ``shortened``.
    """
    state, found = services.state, require_binding(services, namespace, name)
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
    freshness = staleness_of(state.freshness)
    return BindingExplanation(**msgspec.structs.asdict(answer), gaps=state.gaps(about(namespace)), staleness=freshness)


def described(services: Services, namespace: str, name: str) -> BindingView:
    """Return a binding as the service knows it, without a decision."""
    found = require_binding(services, namespace, name)
    binding = found.stored or found.workload.binding
    if binding is None:
        raise Refusal(404, f"{found.workload} has no binding")
    return view_of(found.workload, binding, services.state.gaps(about(namespace)), services.state.freshness)


def view_of(workload: SimulatedWorkload, binding: Binding, gaps: list[str], freshness: Freshness) -> BindingView:
    """Return what a binding says."""
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
        eviction_tasks=[_task(each) for each in spec.graceful_eviction_tasks],
        required_by=[
            RequiringBinding(each.namespace, each.name, _replicas_by_cluster(each.clusters))
            for each in spec.required_by
        ],
        conditions=list(status.conditions),
        last_scheduled_time=status.last_scheduled_time,
        notes=list(workload.notes),
        gaps=gaps,
        staleness=staleness_of(freshness),
        requests=spec.replica_requirements.resource_request if spec.replica_requirements is not None else {},
    )


def _replicas_by_cluster(clusters: tuple[TargetCluster, ...]) -> dict[str, int]:
    return {each.name: each.replicas for each in clusters}


def _task(task: GracefulEvictionTask) -> EvictionTaskView:
    return EvictionTaskView(
        from_cluster=task.from_cluster,
        producer=task.producer,
        reason=task.reason,
        message=task.message,
        purge_mode=task.purge_mode,
        grace_period_seconds=task.grace_period_seconds,
        suppress_deletion=task.suppress_deletion,
        creation_timestamp=task.creation_timestamp,
    )
