"""The objects that would be applied and deleted together: the input of a plan.

The workloads of a world after a set of changes, before any scheduler looks at them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec
import msgspec.structs

from berthmaster.model.claims import PolicyCatalog, permanent_id
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import builtins
from berthmaster.model.existing import UNKNOWN, Existing, waited_for
from berthmaster.model.gaps import Gap, GapKind
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.simulation.changes import AddCluster, RemoveCluster, Scale
from berthmaster.simulation.eligibility import waits, woken
from berthmaster.simulation.plan_index import PlanIndex, WorkloadKey, key_of, policy_ids
from berthmaster.simulation.policy_edit import Detector, PolicyEdit, labels_matter, preemptors
from berthmaster.simulation.workload import NotScheduled, ResourceName, SimulatedWorkload
from berthmaster.simulation.world import Change, World


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Changed objects. They take effect in this order: workloads, scales, policies, deletions, clusters, other edits.

    Each policy takes effect on its own, in order, as if the detector finished with one before the next is applied.

    Attributes:
        policies: the policies that are created or replaced, with their defaults (``policy.defaulted``).
        clusters: the clusters that join or are replaced. An empty status keeps the reported one.
        workloads: the workloads that are new or whose template changes, built with the policies that are stored now.
        existence: the objects that policies can wait for, and whether they exist after the changes.
        overrides: the OverridePolicies and ClusterOverridePolicies. They change what clusters run, and never where.
    """

    policies: tuple[Policy, ...] = ()
    deleted_policies: tuple[PolicyReference, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    deleted_clusters: tuple[str, ...] = ()
    workloads: tuple[SimulatedWorkload, ...] = ()
    deleted_workloads: tuple[ResourceName, ...] = ()
    overrides: tuple[str, ...] = ()
    existence: Mapping[str, bool] = field(default_factory=dict)
    scales: tuple[Scale, ...] = ()
    edits: tuple[Change, ...] = ()

    @property
    def changes_clusters(self) -> bool:
        """Whether clusters may change, so that a scheduler looks at all workloads."""
        return bool(self.clusters or self.deleted_clusters or self.edits)

    def digest_input(self) -> list[Any]:
        """Return the objects as far as they affect decisions, in an order that does not depend on the files.

        Metadata that no decision reads does not enter: annotations, resource versions, managed fields, status.
        """
        return sorted(self._parts(), key=lambda part: msgspec.json.encode(part, order="sorted"))

    def _parts(self) -> Iterator[Any]:
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
        for scale in self.scales:
            yield ["scale", str(scale.resource), scale.replicas]
        for edit in self.edits:
            if isinstance(edit, AddCluster):
                yield ["set", "Cluster", edit.cluster.name, edit.cluster.metadata.labels, builtins(edit.cluster.spec)]
            else:
                yield ["edit", type(edit).__name__, builtins(edit)]


@dataclass(frozen=True, slots=True)
class SetCluster:
    """A cluster joins, or its labels and its spec are replaced."""

    cluster: Cluster

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - the protocol's signature
        before = world.clusters.get(self.cluster.name)
        status = self.cluster.status
        if before is not None and not status.conditions and status.resource_summary is None:
            status = before.status
        cluster = msgspec.structs.replace(self.cluster, status=status)
        workloads = woken(world.workloads, before, cluster)
        return replace(world, clusters={**world.clusters, cluster.name: cluster}, workloads=workloads)


def with_clusters(world: World, changes: ChangeSet, now: datetime, check: Callable[[], None]) -> World:
    """Return the world after the changes of clusters, and after the other edits. Calls ``check`` before each edit.

    Raises:
        InputError: a deleted or edited cluster does not exist.
    """
    for cluster in changes.clusters:
        world = SetCluster(cluster).applied(world, now)
    for name in changes.deleted_clusters:
        world = RemoveCluster(name).applied(world, now)
    for edit in changes.edits:
        check()
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
    existing: Existing = UNKNOWN
    preemption_matters: bool = False
    _by_policy: dict[PolicyReference | str, set[WorkloadKey]] = field(default_factory=dict)

    def put(self, key: WorkloadKey, workload: SimulatedWorkload) -> None:
        """Store what the changes make of a workload."""
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


def changed_workloads(
    index: PlanIndex, changes: ChangeSet, now: datetime, check: Callable[[], None]
) -> ChangedWorkloads:
    """Return the workloads that changes concern, as they are after the changes.

    Raises:
        InputError: a deleted object does not exist, or the fleet is full.
    """
    found = ChangedWorkloads()
    for workload in changes.workloads:
        found.put(key_of(workload.resource), workload)
    for name in changes.deleted_workloads:
        for workload in index.world.find(name):
            found.after[key_of(workload.resource)] = None
    for scale in changes.scales:
        chosen = scale.chosen(index.world)
        key = key_of(chosen.resource)
        found.put(key, scale.scaled(found.after.get(key) or chosen, index.world.policies))
    catalog = PolicyCatalog(index.world.policies)
    _retry(index, changes, found)
    for edit in policy_edits(index, changes):
        catalog.put(edit.reference, edit.after)
        found.edits.append(edit)
        for _ in edited_workloads(index, edit, catalog, found, check):
            pass
    if changes.changes_clusters:
        _change_clusters(index, changes, now, found, check)
    return found


def _retry(index: PlanIndex, changes: ChangeSet, found: ChangedWorkloads) -> None:
    """Let policies take effect that waited for objects which the changes create. The detector tries again."""
    existing, policies = index.world.existing.changed(changes.existence), index.world.policies
    found.existing = existing
    if not any(changes.existence.values()):
        return
    keys = index.keys()
    for key in keys:
        workload = found.after.get(key) or index.get(key)
        if workload is None or workload.waits is None or not workload.claims:
            continue
        policy = workload.claims[0].policy
        if waits(policy, workload.resource.namespace, existing) is None:
            edit = PolicyEdit(policy, policy)
            catalog = PolicyCatalog(policies)
            detector = Detector(
                edit,
                catalog,
                workload_affinity=index.world.workload_affinity,
                existing=existing,
                preempts=index.world.assumptions.preempts,
            )
            found.put(key, detector.retried(workload))


def _change_clusters(
    index: PlanIndex, changes: ChangeSet, now: datetime, found: ChangedWorkloads, check: Callable[[], None]
) -> None:
    """Change the clusters last, so that evictions see the workloads as the other changes leave them."""
    current = {key: found.after.get(key, index.get(key)) for key in [*index.keys(), *found.after]}
    workloads = [each for each in current.values() if each is not None]
    world = with_clusters(replace(index.world, workloads=workloads), changes, now, check)
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
    check: Callable[[], None],
    only: Collection[WorkloadKey] | None = None,
) -> Iterator[WorkloadKey]:
    """Record what one edit of a policy makes of the workloads, and yield each after that.

    Args:
        found: what is known so far. What is not known because of the edit is added when the iterator is exhausted.
    """
    world = index.world
    if edit.has_effect and any(True for _ in preemptors(edit, catalog)):
        found.preemption_matters = True
    detector = Detector(
        edit,
        catalog,
        workload_affinity=world.workload_affinity,
        existing=found.existing,
        preempts=world.assumptions.preempts,
    )
    unlabelled: list[str] = []
    uncounted: list[str] = []
    claiming = edit.claimant
    keys = [*index.concerned(edit, detector), *found.may_concern(edit)] if only is None else only
    for key in index.sorted(keys):
        check()
        workload = found.after[key] if key in found.after else index.get(key)
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


def _unread(policies: Mapping[PolicyReference, Policy], existing: Existing) -> Iterator[Gap]:
    """Yield a gap for each policy of which it is not known whether what it waits for exists."""
    for reference, policy in policies.items():
        unread = existing.unknown(waited_for((policy,)))
        if unread:
            yield Gap(GapKind.WAITED_FOR, facts={"policy": str(reference), "objects": ", ".join(unread)})
