"""Replicas that are assigned to a cluster and do not show in its status yet: what they leave free.

Seconds to minutes pass between an assignment and the moment its pods show in the cluster's summary. Without this
module all decisions of a burst would see the same free capacity. Karmada has the feature behind the gate
``SchedulingOvercommitProtection``. There the whole assignment counts; here only its growth counts, because replicas
that ran before show already.

A cluster has its free capacity as amounts (summary), and may describe its nodes by resource models. Pending replicas
are deducted from both.
"""

import heapq
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec.structs

from berthmaster.model.cluster import AllocatableModeling, Cluster, ResourceModel, ResourceModelRange, ResourceSummary
from berthmaster.model.meta import INT64_MAX, Key, with_status
from berthmaster.model.quantity import MILLI_NANOS, NANOS, Quantity
from berthmaster.scheduling.component_sets import ComponentSet, pods_of
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.resources import CPU, PODS, NodeClasses, Requests, amount_of, counts_for_nodes

MAX_NODES: Final = 2**13
"""The number of nodes of a cluster that are tracked. Each grade may have more; no replica is placed on those."""
MAX_NODE_CLASSES: Final = 64
_PODS_PER_NODE: Final = 110
_PODS_COLUMN: Final = 0
LIFETIME_S: Final = 300.0
"""How long replicas stay assumed if the workload does not report."""
EXPIRED: Final = 1000
"""For how many bindings one call forgets replicas. A new process assumes many at once, and decisions wait meanwhile."""


class PendingReplicas(NamedTuple):
    """Replicas of one binding that are assumed on one cluster.

    Attributes:
        replicas: the number; for a workload of several pod templates, the number of sets of its pods.
    """

    replicas: int
    requests: Requests
    until_s: float
    templates: ComponentSet = ()

    @property
    def pods(self) -> list[tuple[int, Requests]]:
        return pods_of(self.replicas, self.requests, self.templates)


class _Totals:
    """What pending replicas take together: how many there are by requests, and the sum of their resources."""

    __slots__ = ("amounts", "replicas")

    def __init__(self) -> None:
        self.replicas: Counter[Requests] = Counter()
        self.amounts: Counter[str] = Counter()

    def count(self, pending: PendingReplicas, sign: int) -> None:
        for count, requests in pending.pods:
            self.replicas[requests] += sign * count
            if not self.replicas[requests]:
                del self.replicas[requests]
            for name, amount in ((PODS, 1), *requests):
                self.amounts[name] += sign * amount * count
                if not self.amounts[name]:
                    del self.amounts[name]

    def equivalent_replicas(self, requests: Requests) -> int:
        if not requests:
            return self.replicas.total()
        return sum(
            max(-(-replicas * dict(pending).get(name, 0) // amount) for name, amount in requests)
            for pending, replicas in self.replicas.items()
        )

    def equivalent_sets(self, demand: Requests) -> int:
        return max((-(-self.amounts.get(name, 0) // amount) for name, amount in demand), default=0)


class AssumedCluster:
    """A cluster with the replicas that are assumed on it, by binding.

    The cost of adding or removing replicas does not depend on the number of pending ones: a burst has thousands.

    Attributes:
        pending: by binding. Only ``put`` may change it.
    """

    __slots__ = ("_cluster", "_in_namespace", "_nodes", "_placed", "_totals", "pending")

    def __init__(self, cluster: Cluster) -> None:
        self.pending: dict[Key, PendingReplicas] = {}
        self._cluster = cluster
        self._totals = _Totals()
        self._in_namespace: dict[str, _Totals] = {}
        self._nodes: ModelNodes | None = None
        self._placed: dict[Key, list[_Placed]] = {}

    def update(self, cluster: Cluster) -> None:
        if _modeled(cluster) != _modeled(self._cluster):
            self._nodes = None
        self._cluster = cluster

    def put(self, key: Key, pending: PendingReplicas | None) -> None:
        """Replace what is pending for a binding; None removes it."""
        before = self.pending.pop(key, None)
        if before is not None:
            self._count(key, before, -1)
            placed = self._placed.pop(key, [])
            if self._nodes is not None:
                self._nodes.remove(placed)
        if pending is not None:
            self.pending[key] = pending
            self._count(key, pending, 1)
            if self._nodes is not None:
                self._place(self._nodes, key, pending)

    def equivalent_replicas(self, requests: Requests, namespace: str | None = None) -> int:
        """Return how many replicas with these requests would need the resources that are pending.

        Args:
            namespace: count only the workloads of this namespace; None for all.
        """
        totals = self._of(namespace)
        return totals.equivalent_replicas(requests) if totals is not None else 0

    def equivalent_sets(self, demand: Requests, namespace: str | None = None) -> int:
        """Return how many sets of pods with this demand together would need the resources that are pending."""
        totals = self._of(namespace)
        return totals.equivalent_sets(demand) if totals is not None else 0

    def view(self) -> Cluster:
        """Return the cluster with pending replicas counted as ``allocating``, and deducted from its models' nodes."""
        cluster, summary = self._cluster, self._cluster.status.resource_summary
        if not self.pending or summary is None:
            self._nodes = None
            return cluster
        if self._nodes is None and (nodes := nodes_of(cluster)) is not None:
            for key, each in self.pending.items():
                self._place(nodes, key, each)
            self._nodes = nodes
        allocating = {name: _allocating(summary, name, amount) for name, amount in self._totals.amounts.items()}
        return _with_left(cluster, summary, {**summary.allocating, **allocating}, self._nodes)

    def _place(self, nodes: "ModelNodes", key: Key, pending: PendingReplicas) -> None:
        self._placed[key] = [each for count, requests in pending.pods for each in nodes.place(requests, count)]

    def _of(self, namespace: str | None) -> _Totals | None:
        return self._totals if namespace is None else self._in_namespace.get(namespace)

    def _count(self, key: Key, pending: PendingReplicas, sign: int) -> None:
        namespace, _ = key
        self._totals.count(pending, sign)
        if (inside := self._in_namespace.get(namespace)) is None:
            inside = self._in_namespace[namespace] = _Totals()
        inside.count(pending, sign)
        if not inside.replicas:
            del self._in_namespace[namespace]


def _modeled(cluster: Cluster) -> tuple[object, object]:
    """Return the fields that a cluster's nodes derive from."""
    summary = cluster.status.resource_summary
    return cluster.spec.resource_models, summary and summary.allocatable_modelings


def _allocating(summary: ResourceSummary, name: str, amount: int) -> Quantity:
    """Return what is being allocated of a resource together with an amount in the unit of its column."""
    before = summary.allocating.get(name)
    return _quantity(name, amount if before is None else amount + amount_of(name, before))


def _with_left(
    cluster: Cluster, summary: ResourceSummary, allocating: dict[str, Quantity], nodes: "ModelNodes | None"
) -> Cluster:
    """Return a cluster with other allocating amounts, and with models of the nodes as they are."""
    spec = cluster.spec
    summary = msgspec.structs.replace(summary, allocating=allocating)
    if nodes is not None:
        models, modelings = _as_models(nodes.classes())
        spec = msgspec.structs.replace(spec, resource_models=models)
        summary = msgspec.structs.replace(summary, allocatable_modelings=modelings)
    status = msgspec.structs.replace(cluster.status, resource_summary=summary)
    return msgspec.structs.replace(cluster, spec=spec, status=status)


class TakenCluster:
    """A cluster of a fleet whose free capacity shrinks. It keeps no workloads, so that nothing can be given back.

    The columns of the fleet follow each deduction. The fleet's cluster has the allocating amounts of that moment.
    """

    __slots__ = ("_left", "_nodes", "_resources", "_row", "cluster")

    def __init__(self, fleet: Fleet, cluster: Cluster) -> None:
        self.cluster = cluster
        self._resources, self._row, self._nodes = fleet.resources, fleet.row_of[cluster.name], nodes_of(cluster)
        self._left = summary = cluster.status.resource_summary
        if summary is not None:
            self._left = msgspec.structs.replace(summary, allocating=dict(summary.allocating))
            fleet.clusters[self._row] = with_status(cluster, resource_summary=self._left)

    def take(self, pods: Iterable[tuple[int, Requests]]) -> None:
        """Deduct pods: how many, and what each requests."""
        if (left := self._left) is None:
            return
        taken = {PODS: 0}
        for count, requests in pods:
            taken[PODS] += count
            for name, amount in requests:
                taken[name] = taken.get(name, 0) + amount * count
            if self._nodes is not None:
                self._nodes.place(requests, count)
        for name, amount in taken.items():
            left.allocating[name] = _allocating(left, name, amount)
        self._resources.set_free(self._row, left, taken)
        if self._nodes is not None and (classes := self._nodes.changes()) is not None:
            self._resources.models.change(self._row, classes)
        elif self._nodes is not None:
            self._resources.models.put(self._row, self._nodes.classes())
        self._resources.journal.record(self._row)

    def view(self) -> Cluster:
        """Return the cluster with what was taken, and with models of the nodes that are left."""
        if self._left is None:
            return self.cluster
        return _with_left(self.cluster, self._left, dict(self._left.allocating), self._nodes)


def _as_models(classes: NodeClasses) -> tuple[tuple[ResourceModel, ...], tuple[AllocatableModeling, ...]]:
    models = tuple(
        ResourceModel(grade, tuple(map(_range, classes.names, free))) for grade, free in enumerate(classes.free)
    )
    return models, tuple(AllocatableModeling(grade, nodes) for grade, nodes in enumerate(classes.nodes))


@lru_cache(maxsize=4096)
def _range(name: str, amount: int) -> ResourceModelRange:
    quantity = _quantity(name, amount)
    return ResourceModelRange(name, quantity, quantity)


def _quantity(name: str, amount: int) -> Quantity:
    """Return an amount in its column's unit as a quantity. Its text is never read."""
    return Quantity(min(amount, INT64_MAX) * (MILLI_NANOS if name == CPU else NANOS), "")


Amounts = tuple[int, ...]


@lru_cache(maxsize=4096)
def _demand(names: tuple[str, ...], requests: Requests) -> tuple[tuple[int, int], ...] | None:
    """Return what one replica takes of the columns for pods and for these names, by column.

    None if a column is missing.
    """
    asked = {**dict(filter(counts_for_nodes, requests)), PODS: 1}
    if not asked.keys() <= {PODS, *names}:
        return None
    return tuple((_PODS_COLUMN if name == PODS else names.index(name) + 1, each) for name, each in asked.items())


class _Placed(NamedTuple):
    """Replicas of a workload on consecutive nodes, with the same number on each."""

    first: int
    nodes: int
    replicas: int
    demand: tuple[tuple[int, int], ...]


class ModelNodes:
    """The nodes that one cluster's resource models describe, with the pending replicas placed on them.

    A model has the number of nodes of a grade and the capacity of its smallest node. Replicas go to the first node
    that holds one, from the smallest grade up. A node holds 110 pods. Consecutive nodes with the same free amounts are
    one run, so that the cost depends on the number of runs, and not on the numbers of nodes and of replicas.
    """

    def __init__(self, models: Iterable[ResourceModel], modelings: Iterable[AllocatableModeling]) -> None:
        grades = sorted(models, key=lambda model: model.grade)
        counts = dict.fromkeys((model.grade for model in grades), 0)
        for modeling in modelings:
            if modeling.grade in counts:
                counts[modeling.grade] += modeling.count
        self._names = tuple(sorted({each.name for model in grades for each in model.ranges} - {PODS}))
        capacities = [self._smallest(model) for model in grades]
        self._least = min(each[1:] for each in capacities)
        self._starts: list[int] = []
        self._free: list[Amounts] = []
        self._size = 0
        self._classes: dict[Amounts, int] = {}
        self._changed: set[Amounts] = set()
        self._full: dict[tuple[tuple[int, int], ...], int] = {}
        for model, capacity in zip(grades, capacities, strict=True):
            self._count(capacity, counts[model.grade])
            if tracked := min(counts[model.grade], MAX_NODES // len(grades)):
                self._starts.append(self._size)
                self._free.append(capacity)
                self._size += tracked

    def place(self, requests: Requests, replicas: int) -> "list[_Placed]":
        """Place replicas by first fit, and return where they are. Those that fit no node take nothing."""
        if (demand := _demand(self._names, requests)) is None or replicas <= 0:
            return []
        found: list[_Placed] = []
        first_run = max(0, bisect_right(self._starts, self._full.get(demand, 0)) - 1)  # without any node there is none
        for run in range(first_run, len(self._starts)):
            fitting = min(replicas, *[self._free[run][column] // amount for column, amount in demand])
            if fitting <= 0:
                continue
            first, end = self._starts[run], self._end(run)
            nodes = min(end - first, replicas // fitting)
            found.append(_Placed(first, nodes, fitting, demand))
            replicas -= nodes * fitting
            if 0 < replicas < fitting and first + nodes < end:
                found.append(_Placed(first + nodes, 1, replicas, demand))
                replicas = 0
            if not replicas:
                break
        if len(self._full) >= MAX_NODE_CLASSES:
            self._full.clear()
        # Free amounts only shrink until a workload is removed: the nodes before this one stay too full for the demand.
        self._full[demand] = self._size if replicas else found[-1].first + found[-1].nodes - 1
        for placed in found:
            self._take(placed, 1)
        return found

    def remove(self, replicas: "Iterable[_Placed]") -> None:
        """Take replicas off the nodes."""
        self._full.clear()
        for placed in replicas:
            self._take(placed, -1)

    def classes(self) -> NodeClasses:
        """Return all nodes, grouped by their free capacity, in the order of the free amounts.

        Above ``MAX_NODE_CLASSES`` only the emptiest classes are returned, which can only make a cluster look smaller.
        """
        self._changed = set(self._classes)
        shown = sorted(self._classes)[-MAX_NODE_CLASSES:] or [self._least]
        return NodeClasses(self._names, shown, [self._classes.get(free, 0) for free in shown])

    def changes(self) -> NodeClasses | None:
        """Return the classes whose numbers of nodes changed since the last call; None if there are too many classes."""
        if len(self._classes) > MAX_NODE_CLASSES:
            return None
        changed, self._changed = list(self._changed), set()
        return NodeClasses(self._names, changed, [self._classes.get(free, 0) for free in changed])

    def _smallest(self, model: ResourceModel) -> Amounts:
        capacity = {each.name: max(0, amount_of(each.name, each.min)) for each in model.ranges}
        return (_PODS_PER_NODE, *(capacity.get(name, 0) for name in self._names))

    def _end(self, run: int) -> int:
        return self._starts[run + 1] if run + 1 < len(self._starts) else self._size

    def _take(self, placed: _Placed, sign: int) -> None:
        """Change the free amounts of some nodes, and join the runs that are equal then."""
        begin, end = self._begin(placed.first), self._begin(placed.first + placed.nodes)
        for run in range(begin, end):
            before, after = self._free[run], list(self._free[run])
            for column, amount in placed.demand:
                after[column] -= sign * placed.replicas * amount
            nodes = self._end(run) - self._starts[run]
            self._free[run] = tuple(after)
            self._count(before, -nodes)
            self._count(self._free[run], nodes)
        for run in range(min(end, len(self._free) - 1), max(begin, 1) - 1, -1):
            if self._free[run] == self._free[run - 1]:
                del self._free[run], self._starts[run]

    def _begin(self, node: int) -> int:
        """Return the run that begins with a node, after splitting the one that has it."""
        run = bisect_left(self._starts, node)
        if node < self._size and (run == len(self._starts) or self._starts[run] != node):
            self._starts.insert(run, node)
            self._free.insert(run, self._free[run - 1])
        return run

    def _count(self, free: Amounts, nodes: int) -> None:
        """Count nodes with these free amounts. A node without a free pod slot has no free capacity."""
        shown = free[1:] if free[_PODS_COLUMN] > 0 else (0,) * len(self._names)
        self._changed.add(shown)
        if total := self._classes.get(shown, 0) + nodes:
            self._classes[shown] = total
        else:
            self._classes.pop(shown, None)


def nodes_of(cluster: Cluster) -> ModelNodes | None:
    """Return the nodes of a cluster; None if its models do not count (see ``berthmaster.scheduling.resources``)."""
    summary, models = cluster.status.resource_summary, cluster.spec.resource_models
    if summary is None or not models or not summary.allocatable_modelings:
        return None
    if any(each.count < 0 for each in summary.allocatable_modelings):
        return None
    return ModelNodes(models, summary.allocatable_modelings)


class AssumedReplicas:
    """The assumed replicas by cluster and binding. Not safe for several threads.

    Methods that change something return the affected clusters with the pending replicas deducted.
    """

    def __init__(self) -> None:
        self._clusters: dict[str, AssumedCluster] = {}
        self._clusters_of: dict[Key, set[str]] = {}
        self._expiries: list[tuple[float, Key]] = []
        self._last_expiry: tuple[float, Key] | None = None

    def __len__(self) -> int:
        return sum(len(each.pending) for each in self._clusters.values())

    def update_cluster(self, cluster: Cluster) -> Cluster:
        """Store an observed cluster, and return it with the pending replicas deducted."""
        assumed = self._clusters.setdefault(cluster.name, AssumedCluster(cluster))
        assumed.update(cluster)
        return assumed.view()

    def remove_cluster(self, name: str) -> None:
        assumed = self._clusters.pop(name, None)
        for key in assumed.pending if assumed is not None else ():
            self._unlink(key, name)

    def assume(
        self,
        key: Key,
        before: Mapping[str, int],
        after: Mapping[str, int],
        requests: Requests | None,
        now_s: float,
        templates: ComponentSet = (),
    ) -> list[Cluster]:
        """Change a binding's assignment.

        Args:
            before: replicas by cluster, or sets of the pods of the templates.
        """
        changed = set()
        for name in before.keys() | after.keys():
            assumed = self._clusters.get(name)
            if assumed is None:
                continue
            known = assumed.pending.get(key)
            replicas = (known.replicas if known else 0) + after.get(name, 0) - before.get(name, 0)
            if name not in after or replicas <= 0:
                if self._drop(key, name):
                    changed.add(name)
            elif known is None or known.replicas != replicas:
                self._put(key, name, PendingReplicas(replicas, requests or (), now_s + LIFETIME_S, templates))
                changed.add(name)
        return self._views(changed)

    def adopt(
        self,
        key: Key,
        replicas: Mapping[str, int],
        requests: Requests | None,
        now_s: float,
        templates: ComponentSet = (),
    ) -> list[Cluster]:
        """Assume replicas that another process assigned. Skips clusters where the binding has pending replicas."""
        missing = {
            name: count
            for name, count in replicas.items()
            if count > 0 and (assumed := self._clusters.get(name)) is not None and key not in assumed.pending
        }
        for name, count in missing.items():
            self._put(key, name, PendingReplicas(count, requests or (), now_s + LIFETIME_S, templates))
        return self._views(missing)

    def pending(self, key: Key) -> dict[str, PendingReplicas]:
        return {name: self._clusters[name].pending[key] for name in self._clusters_of.get(key, ())}

    def equivalent_replicas(self, cluster: str, requests: Requests | None, namespace: str | None = None) -> int:
        """Return how many replicas with these requests would need the resources that are assumed on a cluster.

        Without requests, each assumed replica counts as one. Otherwise pod slots do not count.

        Args:
            namespace: count only the workloads of this namespace; None for all.
        """
        assumed = self._clusters.get(cluster)
        return assumed.equivalent_replicas(requests or (), namespace) if assumed is not None else 0

    def equivalent_sets(self, cluster: str, demand: Requests, namespace: str | None = None) -> int:
        """Return how many sets of pods with this demand would need the resources that are assumed on a cluster."""
        assumed = self._clusters.get(cluster)
        return assumed.equivalent_sets(demand, namespace) if assumed is not None else 0

    def restore(self, key: Key, pending: Mapping[str, PendingReplicas]) -> list[Cluster]:
        """Undo an assignment: set what is assumed for its binding to an earlier result of ``pending``."""
        touched = {name for name in self._clusters_of.get(key, set()) | pending.keys() if name in self._clusters}
        for name in touched:
            self._drop(key, name)
            if name in pending:
                self._put(key, name, pending[name])
        return self._views(touched)

    def forget(self, key: Key, names: Iterable[str] | None = None) -> list[Cluster]:
        """Forget what is assumed for a binding on these clusters; on all clusters by default."""
        wanted = list(self._clusters_of.get(key, ())) if names is None else names
        return self._views([name for name in wanted if self._drop(key, name)])

    def trim(self, key: Key, clusters: Mapping[str, int]) -> list[Cluster]:
        """Limit what is assumed for a binding to its observed assignment (replicas by cluster)."""
        over = {name: each for name, each in self.pending(key).items() if each.replicas > clusters.get(name, 0)}
        for name, each in over.items():
            self._drop(key, name)
            if replicas := clusters.get(name, 0):
                self._put(key, name, each._replace(replicas=replicas))
        return self._views(over)

    def expire(self, now_s: float) -> list[Cluster]:
        """Forget what has expired at a monotonic time, of at most ``EXPIRED`` bindings. The others follow later."""
        dropped = set()
        for _ in range(EXPIRED):
            if not self._expiries or self._expiries[0][0] > now_s:
                break
            _, key = heapq.heappop(self._expiries)
            expired = [name for name, each in self.pending(key).items() if each.until_s <= now_s]
            dropped |= {name for name in expired if self._drop(key, name)}
        return self._views(dropped)

    def _views(self, names: Iterable[str]) -> list[Cluster]:
        return [self._clusters[name].view() for name in names]

    def _put(self, key: Key, name: str, pending: PendingReplicas) -> None:
        self._clusters[name].put(key, pending)
        self._clusters_of.setdefault(key, set()).add(name)
        if self._last_expiry != (expiry := (pending.until_s, key)):  # a binding has one expiry for all its clusters
            self._last_expiry = expiry
            heapq.heappush(self._expiries, expiry)

    def _drop(self, key: Key, name: str) -> bool:
        assumed = self._clusters.get(name)
        if assumed is None or key not in assumed.pending:
            return False
        assumed.put(key, None)
        self._unlink(key, name)
        return True

    def _unlink(self, key: Key, name: str) -> None:
        names = self._clusters_of[key]
        names.discard(name)
        if not names:
            del self._clusters_of[key]
