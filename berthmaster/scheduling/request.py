"""What one decision is about."""

from collections.abc import Mapping
from dataclasses import dataclass

from berthmaster.model.binding import Binding
from berthmaster.model.placement import Placement
from berthmaster.scheduling.resources import Requests, requests_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A workload, what its policy asks, and where it is now. What only some ways of scheduling know has a default.

    Attributes:
        name: the workload's binding, told apart from its peers by it.
        namespace: the workload's namespace, empty for a cluster-scoped one.
        api_version, kind, uid: the workload's.
        placement: what its policy asks.
        replicas: how many replicas to place.
        requests: what one replica needs; None without requirements, which is not the same as needing nothing.
        current: replicas by cluster, in the binding's order; clusters with none count as current, too.
        evicted_from: clusters that the workload is being moved off.
        fresh: a rescheduling was asked for, so that nothing of the current assignment is kept for its own sake.
        observed_group: the group that the current assignment came from; empty for none.
        is_workload: it has replicas, requirements or components.
        components: how many pod templates it consists of, 0 where that is not told.
        affinity_group, anti_affinity_group: the groups ``key=value`` of workloads to be with, or apart from.
        bounds: how many more replicas clusters can take, by name, as estimators inside them say; never negative. What
            the fleet's own numbers allow still holds. None where nobody was asked.
    """

    name: str
    namespace: str
    api_version: str
    kind: str
    uid: str = ""
    placement: Placement
    replicas: int
    requests: Requests | None
    current: dict[str, int]
    evicted_from: frozenset[str] = frozenset()
    fresh: bool = False
    observed_group: str = ""
    is_workload: bool
    components: int = 0
    affinity_group: str = ""
    anti_affinity_group: str = ""
    bounds: Mapping[str, int] | None = None

    @classmethod
    def of(cls, binding: Binding) -> "Request":
        """The request that a binding makes; without a placement it asks for nothing in particular."""
        spec = binding.spec
        resource, requirements, groups = (
            spec.resource,
            spec.replica_requirements,
            spec.workload_affinity_groups,
        )
        return cls(
            name=binding.metadata.name,
            namespace=resource.namespace,
            api_version=resource.api_version,
            kind=resource.kind,
            uid=resource.uid,
            placement=spec.placement or _ANYWHERE,
            replicas=spec.replicas,
            requests=None if requirements is None else requests_of(requirements.resource_request),
            current={target.name: target.replicas for target in spec.clusters},
            evicted_from=frozenset(task.from_cluster for task in spec.graceful_eviction_tasks)
            if spec.graceful_eviction_tasks
            else _NOWHERE,
            fresh=binding.reschedule_requested,
            observed_group=binding.status.scheduler_observing_affinity_name,
            is_workload=spec.is_workload,
            components=len(spec.components),
            affinity_group=groups.affinity_group if groups else "",
            anti_affinity_group=groups.anti_affinity_group if groups else "",
        )

    @property
    def divides_replicas(self) -> bool:
        """Whether replicas are assigned to it at all; otherwise every selected cluster simply gets it."""
        return (self.replicas > 0 or self.requests is not None) and self.components <= 1


_ANYWHERE = Placement()
_NOWHERE: frozenset[str] = frozenset()
