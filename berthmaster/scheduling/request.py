"""What a decision is asked for."""

from collections.abc import Mapping

import msgspec

from berthmaster.model.binding import Binding, BindingSpec
from berthmaster.model.placement import Placement
from berthmaster.scheduling.component_sets import ComponentSet, SetTemplate, pods_of
from berthmaster.scheduling.resources import Requests, requests_of

_ANYWHERE = Placement()


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A workload, its placement and its current assignment. Fields that only some profiles use have a default.

    Attributes:
        name: the name of the workload's binding. It distinguishes the workload from its peers.
        requests: what one replica requests. None without replica requirements, which differs from an empty request.
        current: replicas by cluster, in the order of the binding. Clusters with 0 replicas count as current, too.
        fresh: a rescheduling was requested. The current assignment has no preference.
        minimal: it moves as few replicas as possible. ``karmada.minimal`` decides it.
        is_workload: it has replicas, requirements or components.
        components: how many pod templates it has, 0 if unknown.
        affinity_group, anti_affinity_group: the groups ``key=value`` of workloads to be with, or apart from.
        bounds: how many more replicas clusters can take, by name, as reported by estimators. Never negative. They
            apply in addition to the fleet's own numbers. None if no estimator was asked.
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
    minimal: bool = False
    observed_group: str = ""
    is_workload: bool
    components: int = 0
    component_set: ComponentSet = ()
    affinity_group: str = ""
    anti_affinity_group: str = ""
    bounds: Mapping[str, int] | None = None

    @classmethod
    def of(cls, binding: Binding) -> "Request":
        """Return the request of a binding. Without a placement every cluster is suitable."""
        spec = binding.spec
        resource, requirements, groups = spec.resource, spec.replica_requirements, spec.workload_affinity_groups
        fresh = binding.reschedule_requested
        return cls(
            name=binding.metadata.name,
            namespace=resource.namespace,
            api_version=resource.api_version,
            kind=resource.kind,
            uid=resource.uid,
            placement=spec.placement or _ANYWHERE,
            replicas=spec.replicas,
            requests=None if requirements is None else requests_of(requirements.resource_request),
            current=binding.assignment,
            evicted_from=binding.evicted_from,
            fresh=fresh,
            minimal=fresh and binding.keeps_replicas,
            observed_group=binding.status.scheduler_observing_affinity_name,
            is_workload=spec.is_workload,
            components=len(spec.components),
            component_set=_component_set(spec) if spec.components else (),
            affinity_group=groups.affinity_group if groups else "",
            anti_affinity_group=groups.anti_affinity_group if groups else "",
        )

    @property
    def divides_replicas(self) -> bool:
        """Whether replicas are assigned. If not, every selected cluster gets the workload."""
        return (self.replicas > 0 or self.requests is not None) and self.components <= 1

    @property
    def set_templates(self) -> ComponentSet:
        """The pods of a set, if a cluster gets the workload as a whole; empty for a workload with replicas."""
        return () if self.divides_replicas else self.component_set

    def occupied(self, clusters: Mapping[str, int]) -> Mapping[str, int]:
        """Return how much of a workload an assignment runs by cluster: its replicas, or its sets of pods.

        Empty if it runs no pods, as far as is known. ``clusters``: replicas by cluster; 0 for a workload of several
        templates, of which each cluster has one set.
        """
        if self.divides_replicas:
            return clusters
        return dict.fromkeys(clusters, 1) if self.component_set else {}

    def pods(self, count: int) -> list[tuple[int, Requests]]:
        """Return the pods of some of what ``occupied`` counts: how many, and what each requests."""
        return pods_of(count, self.requests or (), self.set_templates)


def _component_set(spec: BindingSpec) -> ComponentSet:
    return tuple(
        SetTemplate(
            each.replicas,
            None if each.replica_requirements is None else requests_of(each.replica_requirements.resource_request),
        )
        for each in spec.components
    )
