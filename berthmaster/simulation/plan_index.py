"""An index of a world, so that the plan of a small change looks at few workloads."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from berthmaster.model.binding import Binding, ObjectReference
from berthmaster.model.claims import PERMANENT_ID, Resource, permanent_id
from berthmaster.model.kinds import group_of
from berthmaster.model.policy import Policy, PolicyReference, ResourceSelector
from berthmaster.model.selector import LabelSelector
from berthmaster.scheduling.context import Peers
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.policy_edit import Detector, PolicyEdit
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World

WorkloadKey = tuple[str, str, str, str]
"""API group, kind, namespace and name of a resource. The namespace of a cluster-scoped one is empty."""


def key_of(resource: ObjectReference | Resource) -> WorkloadKey:
    """Return the key of a resource."""
    return group_of(resource.api_version), resource.kind, resource.namespace, resource.name


class PlanIndex:
    """A world with its workloads by policy, by kind and by name, and with its clusters in columns.

    An index can be kept: ``update`` takes the next world and looks only at what differs. Values that are the same
    objects as before cost one comparison each. An index is not safe for use by several threads: a caller that shares
    it holds a lock during ``update`` and ``planner.plan``.

    Args:
        world: the world. It must contain all resources that the policies of later plans can select: also those
            that no policy selects yet. A plan does not see others.
    """

    def __init__(self, world: World, profile: Profile) -> None:
        self.world = World({}, ())
        self.scheduler = Scheduler(Fleet(), profile)
        self.replicas: Counter[str] = Counter()
        self._workloads: dict[WorkloadKey, SimulatedWorkload] = {}
        self._order: dict[WorkloadKey, int] = {}
        self._held: dict[PolicyReference, set[WorkloadKey]] = {}
        self._bound: dict[str, set[WorkloadKey]] = {}
        self._kinds: dict[tuple[str, str], _KindIndex] = {}
        self._policies: dict[PolicyReference, Policy] = {}
        self.update(world)

    def __len__(self) -> int:
        return len(self._workloads)

    def update(self, world: World) -> None:
        """Take the next version of the world."""
        self._update_clusters(world)
        if world.workloads is not self.world.workloads:
            self._update_workloads(world)
        if world.policies is not self.world.policies:
            self._policies = {each.reference: each for each in world.policies}
        self.world = world

    def _update_workloads(self, world: World) -> None:
        known = self._workloads
        current = {key_of(each.resource): each for each in world.workloads}
        for key in known.keys() - current.keys():
            self._remove(key, known[key])
        for key, workload in current.items():
            before = known.get(key)
            if before is not workload:
                if before is not None:
                    self._remove(key, before)
                self._add(key, workload)
        self._workloads = current
        self._order = {key: position for position, key in enumerate(current)}

    def get(self, key: WorkloadKey) -> SimulatedWorkload | None:
        return self._workloads.get(key)

    def keys(self) -> Iterable[WorkloadKey]:
        """Return the keys of all workloads, in the order of the world."""
        return self._workloads.keys()

    def policy(self, reference: PolicyReference) -> Policy | None:
        return self._policies.get(reference)

    def held_by(self, reference: PolicyReference) -> set[WorkloadKey]:
        """Return the workloads that a policy holds. The caller must not change the set."""
        return self._held.get(reference, set())

    def sorted(self, keys: Iterable[WorkloadKey]) -> list[WorkloadKey]:
        """Return the keys without duplicates, in the order of the world; keys that it does not have come last."""
        last = len(self._order)
        return sorted(dict.fromkeys(keys), key=lambda key: (self._order.get(key, last), key))

    def concerned(self, edit: PolicyEdit, detector: Detector) -> Iterator[WorkloadKey]:
        """Yield every workload that an edit of a policy can concern; it may yield one twice."""
        yield from self.held_by(edit.reference)
        for policy in (edit.before, edit.after):
            if policy is not None:
                yield from self._bound.get(permanent_id(policy), ())
        if edit.after is not None:
            for selector in edit.after.spec.resource_selectors:
                yield from self._selected(selector, edit.after)
        for resource in detector.named():
            yield key_of(resource)

    def peers(self) -> Peers:
        """Return where the workloads of affinity groups are, for decisions that may change it."""
        peers = Peers()
        if self.world.workload_affinity:
            for workload in self.world.workloads:
                _place(peers, workload.binding)
        return peers

    def _selected(self, selector: ResourceSelector, policy: Policy) -> Iterable[WorkloadKey]:
        """Return the workloads that a selector can match, and those whose labels are not known."""
        namespace = selector.namespace or ("" if policy.cluster_scoped else policy.metadata.namespace)
        if selector.name and namespace:
            return ((group_of(selector.api_version), selector.kind, namespace, selector.name),)
        kind = self._kinds.get((selector.api_version, selector.kind))
        if kind is None:
            return ()
        found = kind.candidates(namespace, selector.label_selector if not selector.name else None)
        return (key for key in found if key[3] == selector.name) if selector.name else found

    def _add(self, key: WorkloadKey, workload: SimulatedWorkload) -> None:
        if workload.held_by is not None:
            self._held.setdefault(workload.held_by, set()).add(key)
        for policy_id in policy_ids(workload):
            self._bound.setdefault(policy_id, set()).add(key)
        kind = workload.resource.api_version, workload.resource.kind
        self._kinds.setdefault(kind, _KindIndex()).add(key, workload)
        self.replicas.update(_replicas(workload))

    def _remove(self, key: WorkloadKey, workload: SimulatedWorkload) -> None:
        if workload.held_by is not None:
            self._held[workload.held_by].discard(key)
        for policy_id in policy_ids(workload):
            self._bound[policy_id].discard(key)
        self._kinds[workload.resource.api_version, workload.resource.kind].remove(key, workload)
        self.replicas.subtract(_replicas(workload))

    def _update_clusters(self, world: World) -> None:
        fleet = self.scheduler.fleet
        for name in self.world.clusters.keys() - world.clusters.keys():
            fleet.remove(name)
        for name, cluster in world.clusters.items():
            if self.world.clusters.get(name) is not cluster:
                fleet.apply(cluster)


class _KindIndex:
    """The workloads of one kind, by namespace and by label."""

    __slots__ = ("_labelled", "_namespaces", "_unlabelled")

    def __init__(self) -> None:
        self._namespaces: dict[str, set[WorkloadKey]] = {}
        self._labelled: dict[tuple[str, str], set[WorkloadKey]] = {}
        self._unlabelled: set[WorkloadKey] = set()

    def add(self, key: WorkloadKey, workload: SimulatedWorkload) -> None:
        self._namespaces.setdefault(key[2], set()).add(key)
        if workload.template is None:
            self._unlabelled.add(key)
        for label in _labels(workload):
            self._labelled.setdefault(label, set()).add(key)

    def remove(self, key: WorkloadKey, workload: SimulatedWorkload) -> None:
        self._namespaces[key[2]].discard(key)
        self._unlabelled.discard(key)
        for label in _labels(workload):
            self._labelled[label].discard(key)

    def candidates(self, namespace: str, labels: LabelSelector | None) -> Iterator[WorkloadKey]:
        """Yield the workloads of a namespace, or of all if it is empty, that can have the labels of a selector."""
        if labels is not None and labels.match_labels:
            sets = (self._labelled.get(each, set()) for each in labels.match_labels.items())
            smallest: set[WorkloadKey] = min(sets, key=len)
            found = chain(smallest, self._unlabelled)
            yield from (key for key in found if namespace in {"", key[2]})
        elif namespace:
            yield from self._namespaces.get(namespace, ())
        else:
            yield from chain.from_iterable(self._namespaces.values())


def _labels(workload: SimulatedWorkload) -> Iterable[tuple[str, str]]:
    labels = ((workload.template or {}).get("metadata") or {}).get("labels")
    return labels.items() if isinstance(labels, dict) else ()


def fresh_scheduler(world: World, profile: Profile, peers: Peers) -> Scheduler:
    """Return a scheduler for the clusters of a world."""
    return Scheduler(Fleet(world.clusters.values()), profile, peers)


def is_companion(workload: SimulatedWorkload) -> bool:
    """Return whether a workload leads dependencies or follows other workloads."""
    binding = workload.binding
    return binding is not None and bool(binding.spec.propagate_deps or binding.spec.required_by)


def policy_ids(workload: SimulatedWorkload) -> list[str]:
    """Return the permanent ids of the policies that the binding of a workload records."""
    labels = workload.binding.metadata.labels if workload.binding is not None else {}
    return [found for each in PERMANENT_ID.values() if (found := labels.get(each))]


def _place(peers: Peers, binding: Binding | None) -> None:
    if binding is not None and binding.spec.workload_affinity_groups is not None:
        peers.place(Request.of(binding), [target.name for target in binding.spec.clusters])


def _replicas(workload: SimulatedWorkload) -> dict[str, int]:
    if not workload.present or workload.binding is None:
        return {}
    return workload.binding.assignment
