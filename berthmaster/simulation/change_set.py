"""The objects that would be applied and deleted together, and the workloads after that, before any scheduler looks.

An index of the world lets the plan of a small change look at few workloads.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from berthmaster.model.binding import BindingSpec
from berthmaster.model.claims import PERMANENT_ID, permanent_id
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import builtins
from berthmaster.model.gaps import Gap, GapKind
from berthmaster.model.holding import PolicyCatalog
from berthmaster.model.kinds import group_of
from berthmaster.model.overrides import OverridePolicy
from berthmaster.model.policy import Policy, PolicyReference, ResourceSelector
from berthmaster.model.prerequisites import NOTHING_KNOWN, Existence, prerequisites
from berthmaster.model.selector import LabelSelector
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.peers import Peers
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.changes import AddCluster, RemoveCluster, WorkloadEdit, changed_cluster
from berthmaster.simulation.cluster_totals import pods_by_cluster
from berthmaster.simulation.detector import Detector, PolicyEdit, labels_matter, preemptors
from berthmaster.simulation.not_scheduled import waits
from berthmaster.simulation.overriding import overridden
from berthmaster.simulation.workload import NotScheduled, ResourceName, SimulatedWorkload, TypedObject
from berthmaster.simulation.world import Change, World, peers_of

WorkloadKey = tuple[str, str, str, str]
"""API group, kind, namespace and name of a resource. The namespace of a cluster-scoped one is empty."""


def key_of(resource: TypedObject) -> WorkloadKey:
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
        scheduler: a scheduler of clusters of the world; None for a new one.
    """

    def __init__(self, world: World, profile: Profile, scheduler: Scheduler | None = None) -> None:
        self.world = World({}, ())
        self.scheduler = scheduler or Scheduler(Fleet(), profile)
        self._workloads: dict[WorkloadKey, SimulatedWorkload] = {}
        self._order: dict[WorkloadKey, int] = {}
        self._found: _Lookup | None = None
        self._policies: dict[PolicyReference, Policy] = {}
        self.update(world)

    def __len__(self) -> int:
        return len(self._workloads)

    def update(self, world: World) -> None:
        fleet = self.scheduler.fleet
        for name in self.world.clusters.keys() - world.clusters.keys():
            fleet.remove(name)
        for name, cluster in world.clusters.items():
            if self.world.clusters.get(name) is not cluster and fleet.get(name) is not cluster:
                fleet.apply(cluster)
        if world.workloads is not self.world.workloads:
            current = {key_of(each.resource): each for each in world.workloads}
            if self._found is not None:
                self._found.update(self._workloads, current)
            self._workloads = current
            self._order = {key: position for position, key in enumerate(current)}
        if world.policies is not self.world.policies:
            self._policies = {each.reference: each for each in world.policies}
        self.world = world

    def prepare(self) -> "_Lookup":
        """Build what plans of policies need, so that the next one is quick. Simulations of clusters do not need it."""
        if self._found is None:
            self._found = _Lookup()
            self._found.update({}, self._workloads)
        return self._found

    def get(self, key: WorkloadKey) -> SimulatedWorkload | None:
        return self._workloads.get(key)

    def keys(self) -> Iterable[WorkloadKey]:
        return self._workloads.keys()

    @property
    def workloads(self) -> Mapping[WorkloadKey, SimulatedWorkload]:
        return self._workloads

    def policy(self, reference: PolicyReference) -> Policy | None:
        return self._policies.get(reference)

    def held_by(self, reference: PolicyReference) -> Collection[WorkloadKey]:
        """Return the workloads that a policy holds. The caller must not change the collection."""
        return self.prepare().of("held", reference)

    def sorted(self, keys: Iterable[WorkloadKey]) -> list[WorkloadKey]:
        """Return the keys without duplicates, in the order of the world; keys that it does not have come last."""
        last = len(self._order)
        return sorted(dict.fromkeys(keys), key=lambda key: (self._order.get(key, last), key))

    def concerned(self, edit: PolicyEdit, detector: Detector) -> Iterator[WorkloadKey]:
        """Yield every workload that an edit of a policy can concern; it may yield one twice."""
        yield from self.held_by(edit.reference)
        for policy in (edit.before, edit.after):
            if policy is not None:
                yield from self.prepare().of("bound", permanent_id(policy))
        if edit.after is not None:
            for selector in edit.after.spec.resource_selectors:
                yield from self._selected(selector, edit.after)
        elif edit.before is not None:
            for selector in edit.before.spec.resource_selectors:
                found = self._selected(selector, edit.before)
                yield from (key for key in found if (each := self.get(key)) is not None and detector.is_pending(each))
        for resource in detector.named():
            yield key_of(resource)

    def peers(self) -> Peers:
        """Return where the workloads of affinity groups are, for decisions that may change it."""
        return peers_of(self.world) if self.world.workload_affinity else Peers()

    def _selected(self, selector: ResourceSelector, policy: Policy) -> Iterable[WorkloadKey]:
        """Return the workloads that a selector can match, and those whose labels are not known."""
        namespace = selector.namespace or policy.reference.namespace
        if selector.name and namespace:
            return ((group_of(selector.api_version), selector.kind, namespace, selector.name),)
        kind, labels = (selector.api_version, selector.kind), None if selector.name else selector.label_selector
        found = self.prepare().candidates(kind, namespace, labels)
        return (key for key in found if key[3] == selector.name) if selector.name else found

    @property
    def pods(self) -> Counter[str]:
        return self.prepare().pods


class _Lookup:
    """The workloads by what a plan of a policy looks for (``_terms``), and their pods on each cluster."""

    def __init__(self) -> None:
        self.pods: Counter[str] = Counter()
        # Most labels are those of one workload, whose key takes much less memory than a set.
        self._keys: dict[tuple[Hashable, ...], WorkloadKey | set[WorkloadKey]] = {}

    def of(self, *term: Hashable) -> Collection[WorkloadKey]:
        """Return the workloads with a term. The caller must not change the collection."""
        found = self._keys.get(term, ())
        return (found,) if found and isinstance(found, tuple) else found

    def candidates(self, kind: tuple[str, str], namespace: str, labels: LabelSelector | None) -> Iterable[WorkloadKey]:
        """Return the workloads of a namespace, or of all if it is empty, that can have the labels of a selector."""
        if labels is None or not labels.match_labels:
            return self.of("namespace", *kind, namespace) if namespace else self.of("kind", *kind)
        smallest = min((self.of("label", *kind, *each) for each in labels.match_labels.items()), key=len)
        found = chain(smallest, self.of("unlabelled", *kind))
        return (key for key in found if namespace in {"", key[2]})

    def update(
        self, known: Mapping[WorkloadKey, SimulatedWorkload], current: Mapping[WorkloadKey, SimulatedWorkload]
    ) -> None:
        for key, workload in known.items():
            if current.get(key) is not workload:
                for term in _terms(key, workload):
                    self._remove(term, key)
                self.pods.subtract(_pods(workload))
        for key, workload in current.items():
            if known.get(key) is not workload:
                for term in _terms(key, workload):
                    self._add(term, key)
                self.pods.update(_pods(workload))

    def _add(self, term: tuple[Hashable, ...], key: WorkloadKey) -> None:
        found = self._keys.setdefault(term, key)
        if isinstance(found, set):
            found.add(key)
        elif found != key:
            self._keys[term] = {found, key}

    def _remove(self, term: tuple[Hashable, ...], key: WorkloadKey) -> None:
        found = self._keys[term]
        if isinstance(found, set):
            found.discard(key)
        else:
            del self._keys[term]


def _terms(key: WorkloadKey, workload: SimulatedWorkload) -> Iterator[tuple[Hashable, ...]]:
    """Yield the policies of a workload, its kind, and within its kind its namespace and its labels."""
    kind = workload.resource.api_version, workload.resource.kind
    yield "kind", *kind
    yield "namespace", *kind, key[2]
    if workload.held_by is not None:
        yield "held", workload.held_by
    for policy_id in policy_ids(workload):
        yield "bound", policy_id
    if workload.template is None:
        yield "unlabelled", *kind
    labels = ((workload.template or {}).get("metadata") or {}).get("labels")
    for label in labels.items() if isinstance(labels, dict) else ():
        yield "label", *kind, *label


def is_companion(workload: SimulatedWorkload) -> bool:
    """Return whether a workload leads dependencies or follows other workloads."""
    binding = workload.binding
    return binding is not None and bool(binding.spec.propagate_deps or binding.spec.required_by)


def policy_ids(workload: SimulatedWorkload) -> list[str]:
    """Return the permanent ids of the policies that the binding of a workload records."""
    labels = workload.binding.metadata.labels if workload.binding is not None else {}
    return [found for each in PERMANENT_ID.values() if (found := labels.get(each))]


def _pods(workload: SimulatedWorkload) -> Mapping[str, int]:
    binding = workload.binding
    return pods_by_cluster(workload, binding.assignment) if workload.present and binding is not None else {}


class ChangeSet(msgspec.Struct, frozen=True):
    """Changed objects. They take effect in this order: workloads, their edits, policies, deletions, clusters, edits.

    Each policy takes effect on its own, in order, as if the detector finished with one before the next is applied.

    Attributes:
        policies: the policies that are created or replaced, with their defaults (``policy.defaulted``).
        clusters: the clusters that join or are replaced. An empty status keeps the reported one.
        workloads: the workloads that are new or whose template changes, built with the policies that are stored now.
        existence: the objects that policies can wait for, and whether they exist after the changes.
        overrides: the OverridePolicies and ClusterOverridePolicies. They change what clusters run, and never where.
        deleted_overrides: the names of those that are deleted.
    """

    policies: tuple[Policy, ...] = ()
    deleted_policies: tuple[PolicyReference, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    deleted_clusters: tuple[str, ...] = ()
    workloads: tuple[SimulatedWorkload, ...] = ()
    deleted_workloads: tuple[ResourceName, ...] = ()
    overrides: tuple[OverridePolicy, ...] = ()
    deleted_overrides: tuple[str, ...] = ()
    existence: Mapping[str, bool] = msgspec.field(default_factory=dict)
    workload_edits: tuple[WorkloadEdit, ...] = ()
    edits: tuple[Change, ...] = ()

    @property
    def changes_clusters(self) -> bool:
        """Whether clusters may change, so that a scheduler looks at all workloads."""
        return bool(self.clusters or self.deleted_clusters or self.edits)

    @property
    def changes_policies_only(self) -> bool:
        """Whether only objects change that say what is placed, so that nothing looks at the other workloads."""
        return not self.changes_clusters and self != ChangeSet()

    def digest_input(self) -> list[Any]:
        """Return the objects as far as they affect decisions, in an order that does not depend on the files.

        Metadata that no decision reads does not enter: annotations, resource versions, managed fields, status.
        """
        parts = [*self._parts(), *self._override_parts()]
        return sorted(parts, key=lambda part: msgspec.json.encode(part, order="sorted"))

    def _parts(self) -> Iterator[list[Any]]:
        for policy in self.policies:
            yield ["set", *policy.reference, builtins(policy.spec)]
        for reference in self.deleted_policies:
            yield ["delete", *reference]
        for cluster in self.clusters:
            yield ["set", "Cluster", cluster.name, cluster.metadata.labels, builtins(cluster.spec)]
        for name in self.deleted_clusters:
            yield ["delete", "Cluster", name]
        for workload in self.workloads:
            yield ["set", str(workload), *_of_template(workload.manifest)]
        for resource in self.deleted_workloads:
            yield ["delete", str(resource)]
        for change in self.workload_edits:
            yield list(builtins(change).values())
        for edit in self.edits:
            if isinstance(edit, AddCluster):
                yield ["set", "Cluster", edit.cluster.name, edit.cluster.metadata.labels, builtins(edit.cluster.spec)]
            else:
                yield ["edit", type(edit).__name__, builtins(edit)]

    def _override_parts(self) -> Iterator[list[Any]]:
        for override in self.overrides:
            if override.replicas:
                yield ["set", override.name, [[each.value, each.clusters] for each in override.replicas]]
        for name in self.deleted_overrides:
            yield ["delete", name]


def what_if(changes: Iterable[Change], world: World) -> ChangeSet:
    """Return what-if changes of a world as a change set, in which each edit of a workload names one workload.

    Raises:
        InputError: an edit means no workload, or several.
    """
    listed = list(changes)
    edits = (each for each in listed if isinstance(each, WorkloadEdit))
    return ChangeSet(
        workload_edits=tuple(replace(each, resource=each.chosen(world).name) for each in edits),
        edits=tuple(each for each in listed if not isinstance(each, WorkloadEdit)),
    )


def with_clusters(world: World, changes: ChangeSet, now: datetime) -> World:
    """Return the world after the changes of clusters, and after the other edits.

    Raises:
        InputError: a deleted or edited cluster does not exist.
    """
    for cluster in changes.clusters:
        before, status = world.clusters.get(cluster.name), cluster.status
        if before is not None and not status.conditions and status.resource_summary is None:
            world = changed_cluster(world, replace(cluster, status=before.status))
        else:
            world = changed_cluster(world, cluster)
    for name in changes.deleted_clusters:
        world = RemoveCluster(name).applied(world, now)
    for edit in changes.edits:
        world = edit.applied(world, now)
    return world


def _of_template(raw: Mapping[str, Any]) -> tuple[Any, Any]:
    metadata = raw.get("metadata") or {}
    content = {key: value for key, value in raw.items() if key not in {"metadata", "status"}}
    return metadata.get("labels") or {}, content


@dataclass(slots=True)
class ChangedWorkloads:
    """What a set of changes makes of the workloads of an index.

    Attributes:
        clusters_world: the clusters after the changes, without workloads; None if no cluster changes.
        after: the workloads that the changes concern; None for one that is deleted.
        blocked: the workloads that a changed policy selects now and that another policy keeps, and why.
        preemption_matters: whether a policy preempts because of the changes if preemption is on.
    """

    after: dict[WorkloadKey, SimulatedWorkload | None] = field(default_factory=dict)
    edits: list[PolicyEdit] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    blocked: dict[WorkloadKey, tuple[SimulatedWorkload, PolicyReference, str]] = field(default_factory=dict)
    clusters_world: World | None = None
    existing: Existence = NOTHING_KNOWN
    preemption_matters: bool = False
    _by_policy: dict[PolicyReference | str, set[WorkloadKey]] = field(default_factory=dict)

    def put(self, key: WorkloadKey, workload: SimulatedWorkload) -> None:
        self.after[key] = workload
        for policy in (workload.held_by, *policy_ids(workload)):
            if policy is not None:
                self._by_policy.setdefault(policy, set()).add(key)

    def may_concern(self, edit: PolicyEdit) -> Iterable[WorkloadKey]:
        """Return the keys of the changed workloads that an edit can concern. It is fast, and returns too many."""
        if edit.after is not None:
            return self.after
        policy_id = permanent_id(edit.before) if edit.before is not None else ""
        return self._by_policy.get(edit.reference, set()) | self._by_policy.get(policy_id, set())


FindWorkload = Callable[[WorkloadKey], SimulatedWorkload | None]


def changed_workloads(
    index: PlanIndex, changes: ChangeSet, now: datetime, find: FindWorkload, check: Callable[[], None] = lambda: None
) -> ChangedWorkloads:
    """Return the workloads that changes concern, as they are after the changes.

    Args:
        find: returns a workload before the changes; None if the world does not have it.

    Raises:
        InputError: a deleted object does not exist, or the fleet is full.
    """
    found = ChangedWorkloads()
    for workload in changes.workloads:
        key = key_of(workload.resource)
        found.put(key, _carried(workload, index.get(key), find(key)))
    for name in changes.deleted_workloads:
        for workload in index.world.find(name):
            found.after[key_of(workload.resource)] = None
    for each in changes.workload_edits:
        chosen = each.chosen(index.world)
        key = key_of(chosen.resource)
        found.put(key, each.edited(found.after.get(key) or find(key) or chosen, index.world.policies))
    catalog = PolicyCatalog(index.world.policies)
    _retry(index, changes, found, find)
    for edit in policy_edits(index, changes):
        catalog.put(edit.reference, edit.after)
        found.edits.append(edit)
        for _ in edited_workloads(index, edit, catalog, found, find, check):
            pass
    if changes.changes_clusters:
        _change_clusters(index, changes, now, found, find)
    _override(index, changes, found, find)
    return found


def _override(index: PlanIndex, changes: ChangeSet, found: ChangedWorkloads, find: FindWorkload) -> None:
    """Let the changed workloads have what overrides set, and all workloads if overrides or clusters change."""
    world, edited = index.world, {each.name for each in changes.overrides} | {*changes.deleted_overrides}
    kept = (each for each in world.overrides if each.name not in edited)
    overrides = tuple(each for each in (*kept, *changes.overrides) if each.replicas)
    if not (overrides or edited):
        return
    clusters = (found.clusters_world or world).clusters
    everywhere = edited or found.clusters_world is not None
    for key in list(dict.fromkeys([*found.after, *(index.workloads if everywhere else ())])):
        before = found.after[key] if key in found.after else find(key)
        if before is not None and (after := overridden(before, overrides, clusters)) is not before:
            found.put(key, after)


def _carried(
    changed: SimulatedWorkload, present: SimulatedWorkload | None, due: SimulatedWorkload | None
) -> SimulatedWorkload:
    """Return a changed workload, which was built on its present binding, with what is due to happen to the binding."""
    if present is due or present is None or due is None:
        return changed
    before, after, binding = present.binding, due.binding, changed.binding
    if before is None or after is None or binding is None:
        return changed
    names = [each for each in BindingSpec.__struct_fields__ if getattr(before.spec, each) != getattr(after.spec, each)]
    spec = replace(binding.spec, **{each: getattr(after.spec, each) for each in names})
    then = before.metadata.annotations
    written = {name: text for name, text in after.metadata.annotations.items() if then.get(name) != text}
    removed = then.keys() - after.metadata.annotations.keys()
    kept = {name: text for name, text in binding.metadata.annotations.items() if name not in removed}
    metadata = replace(binding.metadata, annotations=kept | written)
    return replace(changed, binding=replace(binding, metadata=metadata, spec=spec, status=after.status))


def _retry(index: PlanIndex, changes: ChangeSet, found: ChangedWorkloads, find: FindWorkload) -> None:
    """Let policies take effect that waited for objects which the changes create. The detector tries again."""
    existing, policies = index.world.existing.changed(changes.existence), index.world.policies
    found.existing = existing
    if not any(changes.existence.values()):
        return
    keys = index.keys()
    for key in keys:
        workload = found.after.get(key) or find(key)
        if workload is None or workload.waits is None or not workload.claims:
            continue
        policy = workload.claims[0].policy
        if waits(policy, workload.resource.namespace, existing) is None:
            edit = PolicyEdit(policy, policy)
            detector = index.world.detector(edit, PolicyCatalog(policies), existing)
            found.put(key, detector.retried(workload))


def _change_clusters(
    index: PlanIndex, changes: ChangeSet, now: datetime, found: ChangedWorkloads, find: FindWorkload
) -> None:
    """Change the clusters last, so that evictions see the workloads as the other changes leave them."""
    current = {**{key: find(key) for key in index.workloads}, **found.after}
    workloads = [each for each in current.values() if each is not None]
    world = with_clusters(replace(index.world, workloads=workloads), changes, now)
    for before, after in zip(workloads, world.workloads, strict=True):
        if before is not after:
            found.put(key_of(after.resource), after)
    found.clusters_world = replace(world, workloads=())


def policy_edits(index: PlanIndex, changes: ChangeSet) -> Iterator[PolicyEdit]:
    """Yield the edits of policies that change something, in the order in which they take effect."""
    known: dict[PolicyReference, Policy | None] = {}
    for policy in changes.policies:
        before = known.get(policy.reference, index.policy(policy.reference))
        known[policy.reference] = policy
        yield PolicyEdit(before, policy)
    for reference in changes.deleted_policies:
        before = known.get(reference, index.policy(reference))
        if before is not None:
            known[reference] = None
            yield PolicyEdit(before, None)


def edited_workloads(
    index: PlanIndex,
    edit: PolicyEdit,
    catalog: PolicyCatalog,
    found: ChangedWorkloads,
    find: FindWorkload,
    check: Callable[[], None],
    only: Collection[WorkloadKey] | None = None,
) -> Iterator[WorkloadKey]:
    """Record what one edit of a policy makes of the workloads, and yield each after that.

    ``found``: what is known so far. What is not known because of the edit is added when the iterator is exhausted.
    """
    world = index.world
    if edit.has_effect and any(True for _ in preemptors(edit, catalog)):
        found.preemption_matters = True
    detector = world.detector(edit, catalog, found.existing)
    unlabelled: list[str] = []
    uncounted: list[str] = []
    claiming = edit.claimant
    keys = [*index.concerned(edit, detector), *found.may_concern(edit)] if only is None else only
    for key in index.sorted(keys):
        check()
        workload = found.after[key] if key in found.after else find(key)
        if workload is None:
            continue
        if labels_matter(edit, workload):
            unlabelled.append(str(workload))
        after = detector.detected(workload)
        if reason := detector.blocked(after):
            found.blocked[key] = after, edit.reference, reason
        if after is not workload:
            found.put(key, after)
            if after.claim is not None:
                claiming[after.claim.policy.reference] = after.claim.policy
            if after.unscheduled is not None and after.unscheduled.reason is NotScheduled.UNKNOWN_REPLICAS:
                uncounted.append(str(workload))
        yield key
    facts = {"policy": str(edit.reference)}
    for kind, about in ((GapKind.LABELS, unlabelled), (GapKind.REPLICAS, uncounted)):
        if about:
            found.gaps.append(Gap(kind, tuple(about), facts))
    found.gaps += _unread(claiming, found.existing)


def _unread(policies: Mapping[PolicyReference, Policy], existing: Existence) -> Iterator[Gap]:
    """Yield a gap for each policy of which it is not known whether what it waits for exists."""
    for reference, policy in policies.items():
        unread = existing.unknown(prerequisites((policy,)))
        if unread:
            yield Gap(GapKind.WAITED_FOR, facts={"policy": str(reference), "objects": ", ".join(unread)})
