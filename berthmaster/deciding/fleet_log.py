"""The changes of a fleet. A snapshot of a fleet costs one number, however many clusters the fleet has."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from berthmaster.model.cluster import Cluster
from berthmaster.model.quantity import Quantity

_LEAST_CHANGES: Final = 1024

Change = Cluster | list[int] | None
"""A change of a cluster: the cluster; its allocating amounts in billionths if nothing else changed; None if it is gone.

The scheduler counts assumed replicas as allocating, so most changes are of the second kind. The list is much
smaller than the cluster, whose memory is free again as soon as the next version exists.
"""


class LoggedFleet(msgspec.Struct, frozen=True, gc=False):
    """The clusters of a fleet at one time. Any thread may read it.

    Attributes:
        changes: what changed since, in order, with the name of the cluster. Later snapshots share the list and append
            to it.
        length: how many of these changes the snapshot has.
        earlier: the changes that led to ``start``, up to the start before it.
    """

    start: Mapping[str, Cluster]
    changes: Sequence[tuple[str, Change]]
    length: int
    earlier: Sequence[tuple[str, Change]]

    def clusters(self) -> dict[str, Cluster]:
        """Return the clusters by name. The texts of allocating amounts are empty; no decision reads them."""
        found = dict(self.start)
        for name, change in _latest(self.changes[: self.length]).items():
            if change is None:
                found.pop(name, None)
            else:
                found[name] = _with_allocating(found[name], change) if isinstance(change, list) else change
        return found

    def since(self, other: "LoggedFleet") -> Mapping[str, Change]:
        """Return what to change in another snapshot to get this one, by cluster.

        This is quick if both are near each other in one log. Either may be the later one: a ledger gets decisions when
        they are written, which is not quite the order in which they were taken. Otherwise all clusters are compared.
        """
        if other.changes is self.changes and other.length <= self.length:
            return _latest(self.changes[other.length : self.length])
        if other.changes is self.earlier:
            return _latest([*other.changes[other.length :], *self.changes[: self.length]])
        if self.changes is other.changes:
            return self._undoing(self.changes[self.length : other.length])
        if self.changes is other.earlier:
            return self._undoing([*self.changes[self.length :], *other.changes[: other.length]])
        before, after = other.clusters(), self.clusters()
        changes: dict[str, Change] = dict.fromkeys(name for name in before if name not in after)
        for name, cluster in after.items():
            known = before.get(name)
            if known is not cluster:
                changes[name] = _change(known, cluster)
        return changes

    def _undoing(self, later: Iterable[tuple[str, Change]]) -> dict[str, Change]:
        undone = _latest(later)
        own = _latest([each for each in self.changes[: self.length] if each[0] in undone])
        return {name: self._undo(name, change, own.get(name, self.start.get(name))) for name, change in undone.items()}

    def _undo(self, name: str, later: Change, own: Change) -> Change:
        if isinstance(later, list):  # only the amounts differ
            return allocating_of(own) if isinstance(own, Cluster) else own
        return _with_allocating(self.start[name], own) if isinstance(own, list) else own


NO_CLUSTERS: Final = LoggedFleet({}, (), 0, ())


class FleetLog:
    """Keeps the changes of a fleet for snapshots. Not safe for several threads."""

    def __init__(self) -> None:
        self._clusters: dict[str, Cluster] = {}
        self._start: Mapping[str, Cluster] = {}
        self._changes: list[tuple[str, Change]] = []
        self._earlier: list[tuple[str, Change]] = []
        self._most = _LEAST_CHANGES

    def sharing_apis(self, cluster: Cluster) -> Cluster:
        """Return a cluster that shares the served API groups with its last version if they are equal.

        They are by far its largest part, and the log keeps several versions of a cluster.
        """
        last = self._clusters.get(cluster.metadata.name)
        if last is None or last.status.api_enablements != cluster.status.api_enablements:
            return cluster
        return replace(cluster, status=replace(cluster.status, api_enablements=last.status.api_enablements))

    def put(self, cluster: Cluster) -> None:
        name = cluster.metadata.name
        self._add(name, _change(self._clusters.get(name), cluster))
        self._clusters[name] = cluster

    def remove(self, name: str) -> None:
        if name in self._clusters:
            self._add(name, None)
            del self._clusters[name]

    def snapshot(self) -> LoggedFleet:
        return LoggedFleet(self._start, self._changes, len(self._changes), self._earlier)

    def _add(self, name: str, change: Change) -> None:
        """Add a change that ``_clusters`` does not have yet. The list starts anew if it is longer than the fleet."""
        if len(self._changes) >= self._most:
            self._start, self._earlier, self._changes = self._clusters.copy(), self._changes, []
            self._most = max(_LEAST_CHANGES, len(self._clusters))
        self._changes.append((name, change))


def _latest(changes: Iterable[tuple[str, Change]]) -> dict[str, Change]:
    latest: dict[str, Change] = {}
    for name, change in changes:
        known = latest.get(name)
        latest[name] = (
            _with_allocating(known, change) if isinstance(change, list) and isinstance(known, Cluster) else change
        )
    return latest


def _change(before: Cluster | None, after: Cluster) -> Change:
    return allocating_of(after) if before is not None and _only_allocating_differs(before, after) else after


def _with_allocating(cluster: Cluster, amounts: Iterable[int]) -> Cluster:
    summary = cluster.status.resource_summary
    if summary is None:
        return cluster
    allocating = {name: Quantity(nanos, "") for name, nanos in zip(summary.allocating, amounts, strict=True)}
    return replace(cluster, status=replace(cluster.status, resource_summary=replace(summary, allocating=allocating)))


def allocating_of(cluster: Cluster) -> list[int]:
    """Return the allocating amounts of a cluster, in billionths."""
    summary = cluster.status.resource_summary
    return [] if summary is None else [amount.nanos for amount in summary.allocating.values()]


def _only_allocating_differs(old: Cluster, new: Cluster) -> bool:
    """Return whether at most the allocating amounts differ, for the price of some comparisons of identity.

    All other parts are the same objects if only assumed replicas changed.
    """
    ours, theirs = old.status, new.status
    before, after = ours.resource_summary, theirs.resource_summary
    return (
        before is not None
        and after is not None
        and old.metadata is new.metadata
        and old.spec is new.spec
        and ours.conditions is theirs.conditions
        and ours.api_enablements is theirs.api_enablements
        and ours.kubernetes_version is theirs.kubernetes_version
        and before.allocatable is after.allocatable
        and before.allocated is after.allocated
        and before.allocatable_modelings is after.allocatable_modelings
        and list(before.allocating) == list(after.allocating)
    )
