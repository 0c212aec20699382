"""The changes of a fleet. A snapshot of a fleet costs one number, however many clusters the fleet has."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from berthmaster.model.cluster import Cluster

_LEAST_CHANGES: Final = 1024


class ClusterChange(NamedTuple):
    """A change of a cluster.

    Attributes:
        name: the name of the cluster.
        cluster: the cluster; None if it is gone.
        allocating: its allocating amounts in billionths, if nothing else changed. The scheduler counts assumed replicas
            there, so most changes are of this kind. They are read here because the cluster was just made: later its
            memory is no longer in the processor's cache.
    """

    name: str
    cluster: Cluster | None
    allocating: list[int] | None = None


class LoggedFleet(msgspec.Struct, frozen=True, gc=False):
    """The clusters of a fleet at one time. Any thread may read it.

    Attributes:
        start: the clusters at an earlier time, by name.
        changes: what changed since, in order. Later snapshots share the list and append to it.
        length: how many of these changes the snapshot has.
    """

    start: Mapping[str, Cluster]
    changes: Sequence[ClusterChange]
    length: int

    def clusters(self) -> dict[str, Cluster]:
        """Return the clusters by name."""
        found = dict(self.start)
        for name, cluster, _ in self.changes[: self.length]:
            if cluster is None:
                found.pop(name, None)
            else:
                found[name] = cluster
        return found

    def since(self, earlier: "LoggedFleet") -> Iterable[ClusterChange]:
        """Return what changed since an earlier snapshot, one change a cluster.

        This is quick if both snapshots share a list of changes. Otherwise all clusters are compared by identity.
        """
        if earlier.changes is self.changes and earlier.length <= self.length:
            latest: dict[str, ClusterChange] = {}
            for change in self.changes[earlier.length : self.length]:
                known = latest.get(change.name)
                merges = known is not None and known.allocating is None
                latest[change.name] = change._replace(allocating=None) if merges else change
            return latest.values()
        before, after = earlier.clusters(), self.clusters()
        gone = [ClusterChange(name, None) for name in before if name not in after]
        return gone + [
            _change(name, before.get(name), each) for name, each in after.items() if before.get(name) is not each
        ]


NO_CLUSTERS: Final = LoggedFleet({}, (), 0)


class FleetLog:
    """Keeps the changes of a fleet for snapshots. Not safe for several threads."""

    def __init__(self) -> None:
        self._clusters: dict[str, Cluster] = {}
        self._start: Mapping[str, Cluster] = {}
        self._changes: list[ClusterChange] = []

    def sharing_apis(self, cluster: Cluster) -> Cluster:
        """Return a cluster that shares the served API groups with its last version if they are equal.

        They are by far its largest part, and the log keeps many versions of a cluster.
        """
        last = self._clusters.get(cluster.metadata.name)
        if last is None or last.status.api_enablements != cluster.status.api_enablements:
            return cluster
        return replace(cluster, status=replace(cluster.status, api_enablements=last.status.api_enablements))

    def put(self, cluster: Cluster) -> None:
        """Add or replace a cluster."""
        name = cluster.metadata.name
        self._add(_change(name, self._clusters.get(name), cluster))
        self._clusters[name] = cluster

    def remove(self, name: str) -> None:
        """Remove a cluster, if there is one of this name."""
        if name in self._clusters:
            self._add(ClusterChange(name, None))
            del self._clusters[name]

    def snapshot(self) -> LoggedFleet:
        """Return the clusters as they are."""
        return LoggedFleet(self._start, self._changes, len(self._changes))

    def _add(self, change: ClusterChange) -> None:
        """Add a change that ``_clusters`` does not have yet. The list starts anew if it is longer than the fleet."""
        if len(self._changes) >= max(_LEAST_CHANGES, len(self._clusters)):
            self._start, self._changes = self._clusters.copy(), []
        self._changes.append(change)


def _change(name: str, before: Cluster | None, after: Cluster) -> ClusterChange:
    only_allocating = before is not None and _only_allocating_differs(before, after)
    return ClusterChange(name, after, allocating_of(after) if only_allocating else None)


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
        and ours.kubernetes_version == theirs.kubernetes_version
        and before.allocatable is after.allocatable
        and before.allocated is after.allocated
        and before.allocatable_modelings is after.allocatable_modelings
        and list(before.allocating) == list(after.allocating)
    )
