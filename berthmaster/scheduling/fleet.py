"""The fleet in columns, updated in place as one cluster changes, and placements that are compiled for it."""

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec.structs
import numpy as np
from numpy.typing import NDArray

from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.taint import NO_EXECUTE, Taint
from berthmaster.scheduling.bounded_cache import ArrayBudget
from berthmaster.scheduling.columns import BoolArray, Column, IntArray, InternedValues, InvertedIndex, Journal, Scalar
from berthmaster.scheduling.resources import Resources

_FIRST_CAPACITY: Final = 16
_COLUMNS: Final = ("occupied", "taint_code", "kinds_code", "region_code", "_name_of")
_DERIVED_KEPT: Final = 512
MAX_CLUSTERS: Final = 2**18
"""The rank of a name has 18 bits in a sort key. See ``candidates``."""


class Fleet:
    """The clusters, and what is derived from them.

    A cluster has a *row* in every array as long as it is in the fleet. The rows of removed clusters are reused.

    Attributes:
        clusters: by row. None in a free row.
        structure: journal of all changes except resource numbers: clusters that are added or removed, labels,
            annotations, spec, API enablements, conditions.
        resources: capacity, with a journal of its own, because numbers change far more often than structure.
        deleting, evicting: the names of the clusters that are being deleted, and of those with a NoExecute taint.
        taints: interned tuples of taints. ``taint_code`` has the code of each row.
    """

    def __init__(self, clusters: Iterable[Cluster] = ()) -> None:
        self.clusters: list[Cluster | None] = []
        self.row_of: dict[str, int] = {}
        self.deleting, self.evicting = set[str](), set[str]()
        arrays = ArrayBudget()
        self.structure = Journal(arrays)
        self.resources = Resources(arrays)
        self.labels, self.fields, self.zones = InvertedIndex(), InvertedIndex(), InvertedIndex()
        self.taints: InternedValues[tuple[Taint, ...]] = InternedValues()
        self.kinds: InternedValues[frozenset[tuple[str, str]]] = InternedValues()
        self.regions: InternedValues[str] = InternedValues()
        self.occupied: BoolArray = np.zeros(0, dtype=np.bool_)
        self.taint_code, self.kinds_code, self.region_code = (np.zeros(0, dtype=np.int64) for _ in range(3))
        self._name_of = np.zeros(0, dtype=np.object_)
        self._names: list[str] = []
        self._name_rank: IntArray | None = None
        self._free_rows: list[int] = []
        self._columns: dict[Hashable, ClusterColumn[Any]] = {}
        for cluster in clusters:
            self.apply(cluster)

    def __len__(self) -> int:
        return len(self.row_of)

    def __iter__(self) -> Iterator[Cluster]:
        """Yield the clusters. A row without a cluster is left out."""
        return (each for each in self.clusters if each is not None)

    @property
    def capacity(self) -> int:
        return len(self.clusters)

    def get(self, name: str) -> Cluster | None:
        row = self.row_of.get(name)
        return None if row is None else self.clusters[row]

    def holds(self, names: Iterable[str]) -> BoolArray:
        """Return a column: which rows hold one of the named clusters. Names of other clusters do not count."""
        mask = np.zeros(self.capacity, dtype=np.bool_)
        mask[[row for name in names if (row := self.row_of.get(name)) is not None]] = True
        return mask

    def apply(self, cluster: Cluster) -> None:
        """Add a cluster, or replace the one with the same name. Only what differs is updated.

        Raises:
            InputError: the fleet is full, or its columns cannot hold the resources of the cluster.
        """
        row = self.row_of.get(cluster.name)
        old = None if row is None else self.clusters[row]
        other_resources = old is None or _resources(old) != _resources(cluster)
        if other_resources:
            self.resources.require_space(cluster)
        if row is None:
            row = self._take_row(cluster.name)
        self.clusters[row] = cluster
        if old is None or _structure(old) != _structure(cluster):
            if old is not None:
                self._remove_from_indexes(row, old)
            self._index(row, cluster)
            self.structure.record(row)
        if other_resources:
            self.resources.set(row, cluster)

    def remove(self, name: str) -> None:
        """Remove a cluster. Does nothing if the name is unknown."""
        row = self.row_of.pop(name, None)
        if row is None:
            return
        cluster = self.clusters[row]
        if cluster is not None:
            self._remove_from_indexes(row, cluster)
        self.clusters[row] = None
        self.occupied[row] = False
        del self._names[bisect_left(self._names, name)]
        self._name_rank = None
        self._free_rows.append(row)
        self.structure.record(row)
        self.resources.clear(row)

    def name_rank(self) -> IntArray:
        """Return for each row the rank of its name in byte order. Free rows have no meaningful rank."""
        if self._name_rank is None:
            rank = np.zeros(self.capacity, dtype=np.int64)
            rank[[self.row_of[name] for name in self._names]] = np.arange(len(self._names))
            self._name_rank = rank
        return self._name_rank

    def names(self, rows: IntArray) -> list[str]:
        names: list[str] = self._name_of[rows].tolist()
        return names

    def column(
        self, key: Hashable, of: Callable[[Cluster], Any], nothing: Scalar, journal: Journal | None = None
    ) -> "ClusterColumn[Scalar]":
        """Return the column of a function of each cluster (``ClusterColumn``). Make it once, then share it by key.

        ``journal``: by default the one of the structure.
        """
        if key not in self._columns:
            if len(self._columns) >= _DERIVED_KEPT:
                self._columns.clear()
            self._columns[key] = ClusterColumn(self, journal or self.structure, of, nothing)
        return self._columns[key]

    def _take_row(self, name: str) -> int:
        if len(self.row_of) >= MAX_CLUSTERS:
            raise InputError(f"a fleet holds at most {MAX_CLUSTERS} clusters")
        if not self._free_rows:
            self._grow()
        row = self._free_rows.pop()
        self.row_of[name] = row
        self._name_of[row] = name
        insort(self._names, name)
        self._name_rank = None
        return row

    def _grow(self) -> None:
        old = self.capacity
        new = max(_FIRST_CAPACITY, 2 * old)
        self.clusters.extend([None] * (new - old))
        self._free_rows.extend(range(new - 1, old - 1, -1))
        for name in _COLUMNS:
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros(new - old, dtype=column.dtype)]))
        self.structure.reset()
        self.resources.grow(new)

    def _index(self, row: int, cluster: Cluster) -> None:
        spec = cluster.spec
        self.labels.add(row, cluster.metadata.labels.items())
        self.fields.add(row, cluster.fields().items())
        self.zones.add(row, (("zone", zone) for zone in spec.zones))
        self.taint_code[row] = self.taints.take(spec.taints)
        self.kinds_code[row] = self.kinds.take(frozenset(cluster.enabled_kinds()))
        self.region_code[row] = self.regions.take(spec.region)
        self.occupied[row] = True
        if cluster.deleting:
            self.deleting.add(cluster.name)
        if any(each.effect == NO_EXECUTE for each in spec.taints):
            self.evicting.add(cluster.name)

    def _remove_from_indexes(self, row: int, cluster: Cluster) -> None:
        self.labels.discard(row, cluster.metadata.labels.items())
        self.fields.discard(row, cluster.fields().items())
        self.zones.discard(row, (("zone", zone) for zone in cluster.spec.zones))
        self.taints.release(int(self.taint_code[row]))
        self.kinds.release(int(self.kinds_code[row]))
        self.regions.release(int(self.region_code[row]))
        self.deleting.discard(cluster.name)
        self.evicting.discard(cluster.name)


class ClusterColumn(Column[Scalar]):
    """A column that calls a function with each cluster, for questions that no index answers.

    Args:
        journal: one of the two journals of the fleet, the one that records the changes which affect the function.
        of: the function. It must read nothing but the cluster.
        nothing: the value of free rows. Its type is the type of the column.
    """

    __slots__ = ("_fleet", "_nothing", "_of")

    def __init__(self, fleet: Fleet, journal: Journal, of: Callable[[Cluster], Any], nothing: Scalar) -> None:
        super().__init__(journal)
        self._fleet = fleet
        self._of = of
        self._nothing = nothing

    def compute(self) -> NDArray[Scalar]:
        return np.array([self.compute_row(row) for row in range(self._fleet.capacity)], dtype=self._nothing.dtype)

    def compute_row(self, row: int) -> Any:  # noqa: ANN401 - the scalar that the array holds
        cluster = self._fleet.clusters[row]
        return self._nothing if cluster is None else self._of(cluster)


def fleet_of(clusters: Sequence[Cluster]) -> Fleet:
    """Make a fleet of a list of clusters that a user wrote.

    Raises:
        FieldError: a cluster has no name, or the name of another one. The path starts at the list.
        InputError: there are too many clusters, or too many names of resources.
    """
    fleet = Fleet()
    for index, cluster in enumerate(clusters):
        if not cluster.name:
            raise FieldError(f"[{index}].metadata.name", "is missing; accepted is a cluster's name")
        if cluster.name in fleet.row_of:
            raise FieldError(f"[{index}].metadata.name", f"{cluster.name!r} is a duplicate; names are unique")
        try:
            fleet.apply(cluster)
        except FieldError as error:
            raise error.below(f"[{index}]") from None
    return fleet


def _structure(cluster: Cluster) -> tuple[object, ...]:
    metadata, status = cluster.metadata, cluster.status
    spec = cluster.spec
    if spec.resource_models:
        spec = msgspec.structs.replace(spec, resource_models=())
    return metadata.labels, metadata.annotations, spec, status.api_enablements, status.conditions, cluster.deleting


def _resources(cluster: Cluster) -> tuple[object, ...]:
    return cluster.status.resource_summary, cluster.spec.resource_models
