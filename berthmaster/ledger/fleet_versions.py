"""Fleet versions: the clusters that a decision read, as changes of the clusters of the decision before.

A cluster is a vector of integers: the numbers of its four documents, then its own numbers. A change holds the positions
that changed. Numbers of clusters that change between two decisions are written once, with the later decision.

The digest of a version is the sum of the digests of its clusters, and that of a cluster is linear in its numbers, so
that a changed number takes one multiplication. It finds accidents; the hash chain protects the bytes.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import compress, count
from operator import mul, sub
from typing import Final, NamedTuple

from berthmaster.controllers.fleet_log import NO_CLUSTERS, LoggedFleet, allocating_of
from berthmaster.ledger.cluster_parts import (
    PartDecoder,
    ShapeKey,
    enablements_of,
    identity_of,
    models_of,
    numbers_before_allocating,
    numbers_of,
    same_identity,
    shape_key,
    shape_of,
)
from berthmaster.ledger.fleet_changes import ADD, BATCH_START, REMOVE, SET, FleetChanges, Kind, Row, VectorChange
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import DamagedLedgerError

DIGEST_BYTES: Final = 16
_DOCUMENTS: Final = 4
"""A vector starts with the numbers of the documents: identity, enablements, models, shape."""
_SHAPE: Final = 3
_MASK: Final = (1 << (8 * DIGEST_BYTES)) - 1


def digest_of(document: bytes) -> bytes:
    """Return the name of a document by its content."""
    return hashlib.blake2b(document, digest_size=DIGEST_BYTES).digest()


class _Adding(NamedTuple):
    """A kind of changes that add to numbers, and the factors of these numbers in the digest."""

    kind: Kind
    weights: tuple[int, ...]


@dataclass(slots=True)
class _Entry:
    """A cluster of the last version.

    Attributes:
        slot: its number.
        cluster: the cluster; its allocating amounts may be older than those in the vector.
        vector: the numbers of its documents, then its own numbers.
        base: the digest of its documents.
        allocating: the positions of the allocating amounts in the vector.
    """

    slot: int
    cluster: Cluster
    vector: list[int]
    base: int
    allocating: slice
    adding: _Adding


class FleetWriter:
    """Encodes the fleet versions of batches, each as a change of the one before.

    Attributes:
        pending: the number of changes since ``take_changes`` was called, at most.
        changed: the number of changes that were taken since the last whole version.
    """

    def __init__(self, number_of: Callable[[bytes], int], digest: Callable[[int], bytes]) -> None:
        """Start without a version.

        Args:
            number_of: returns the number of a document, and stores the document if it is new.
            digest: returns the digest of a document by its number.
        """
        self._number_of = number_of
        self._digest = digest
        self._shapes: dict[ShapeKey, int] = {}
        self._last = NO_CLUSTERS
        self._entries: dict[str, _Entry] = {}
        self._free_slots: list[int] = []
        self._slots = 0
        self._version = 0
        self._whole = True
        self._rows: defaultdict[Kind, list[Row]] = defaultdict(list)
        self.pending = self.changed = 0

    def __len__(self) -> int:
        return len(self._entries)

    def slot_of(self, name: str) -> int | None:
        """Return the slot of a cluster of the last version."""
        entry = self._entries.get(name)
        return None if entry is None else entry.slot

    def whole(self) -> None:
        """Start the next batch with the whole last version: its reader needs no earlier batch."""
        for entry in self._entries.values():
            self._set(entry, BATCH_START)
        self._whole, self.changed = True, 0

    def write(self, fleet: LoggedFleet, decision: int) -> bytes:
        """Add the version that a decision saw, and return its digest.

        Args:
            fleet: the clusters. It is quick to find what changed if they follow those of the last call.
            decision: the position of the decision in the batch, above ``BATCH_START`` and that of the last call.
        """
        for name, change in fleet.since(self._last).items():
            self.pending += 1
            entry = self._entries.get(name)
            if change is None:
                self._remove(name, decision)
            elif isinstance(change, Cluster):
                self._put(name, entry, change, decision)
            elif entry is not None:
                self._update_allocating(entry, change, decision)
        self._last = fleet
        self._version &= _MASK
        return self._version.to_bytes(DIGEST_BYTES)

    def take_changes(self) -> FleetChanges:
        """Return the changes of all versions since the last call: those of a batch."""
        changes = FleetChanges.of(self._rows, self._slots, whole=self._whole)
        self.changed += sum(map(len, self._rows.values()))
        self._rows.clear()
        self._whole, self.pending = False, 0
        return changes

    def _remove(self, name: str, decision: int) -> None:
        entry = self._entries.pop(name, None)
        if entry is not None:  # otherwise it came and went between two decisions
            self._version -= _cluster_digest(entry.base, entry.vector)
            self._free_slots.append(entry.slot)
            self._rows[(REMOVE,)].append((decision, entry.slot))

    def _add(self, name: str, cluster: Cluster, decision: int) -> None:
        if self._free_slots:
            slot = self._free_slots.pop()
        else:
            slot = self._slots
            self._slots += 1
        vector = self._vector(cluster, None)
        base = _documents_digest(vector, self._digest)
        entry = self._entries[name] = _Entry(slot, cluster, vector, base, *_allocating(cluster))
        self._version += _cluster_digest(base, vector)
        self._set(entry, decision)

    def _put(self, name: str, entry: _Entry | None, cluster: Cluster, decision: int) -> None:
        """Store a cluster. Changed numbers are added to its vector; other documents replace all of it."""
        if entry is None:
            self._add(name, cluster, decision)
            return
        before, vector = entry.vector, self._vector(cluster, entry)
        entry.cluster, entry.vector = cluster, vector
        if before[:_DOCUMENTS] != vector[:_DOCUMENTS]:
            base = _documents_digest(vector, self._digest)
            self._version += _cluster_digest(base, vector) - _cluster_digest(entry.base, before)
            entry.base, (entry.allocating, entry.adding) = base, _allocating(cluster)
            self._set(entry, decision)
            return
        changes = list(map(sub, vector, before))
        if any(changes):
            self._add_to(entry, _adding(tuple(compress(count(), changes))), list(filter(None, changes)), decision)

    def _update_allocating(self, entry: _Entry, amounts: list[int], decision: int) -> None:
        """Store the allocating amounts of a cluster of which nothing else differs."""
        own, vector = entry.allocating, entry.vector
        changes = list(map(sub, amounts, vector[own]))
        vector[own] = amounts
        if any(changes):
            self._add_to(entry, entry.adding, changes, decision)

    def _add_to(self, entry: _Entry, adding: _Adding, changes: Sequence[int], decision: int) -> None:
        kind, weights = adding
        self._version += entry.base * sum(map(mul, weights, changes))
        self._rows[kind].append((decision, entry.slot, *changes))

    def _set(self, entry: _Entry, decision: int) -> None:
        self._rows[(SET, len(entry.vector))].append((decision, entry.slot, *entry.vector))

    def _vector(self, cluster: Cluster, entry: _Entry | None) -> list[int]:
        """Return the vector of a cluster. Parts that did not change since its last version are not encoded again."""
        shape = shape_key(cluster)
        number = self._shapes.get(shape)
        if number is None:
            number = self._shapes[shape] = self._number_of(shape_of(shape))
        if entry is None:
            known: list[int | None] = [None] * _DOCUMENTS
        else:
            old, vector = entry.cluster, entry.vector
            known = [
                vector[0] if same_identity(old, cluster) else None,
                vector[1] if _same(old.status.api_enablements, cluster.status.api_enablements) else None,
                vector[2] if _same(old.spec.resource_models, cluster.spec.resource_models) else None,
            ]
        return [
            known[0] if known[0] is not None else self._number_of(identity_of(cluster)),
            known[1] if known[1] is not None else self._number_of(enablements_of(cluster)),
            known[2] if known[2] is not None else self._number_of(models_of(cluster)),
            number,
            *numbers_of(cluster),
        ]


def _same(one: object, other: object) -> bool:
    return one is other or one == other


def _allocating(cluster: Cluster) -> tuple[slice, _Adding]:
    """Return where the allocating amounts are in the vector of a cluster, and how all of them change."""
    start = _DOCUMENTS + numbers_before_allocating(cluster)
    stop = start + len(allocating_of(cluster))
    return slice(start, stop), _adding(tuple(range(start, stop)))


@lru_cache(4096)
def _adding(positions: tuple[int, ...]) -> _Adding:
    """Return the kind of a change that adds to these positions of a vector."""
    return _Adding((ADD, *positions), tuple(_weight(at - _DOCUMENTS) for at in positions))


@cache
def _weight(position: int) -> int:
    """Return the factor of a number in the digest of its cluster. It is odd, so that no change is multiplied to 0."""
    return int.from_bytes(digest_of(str(position).encode())) | 1


def _documents_digest(vector: Sequence[int], digest: Callable[[int], bytes]) -> int:
    """Return the digest of the documents of a cluster. It is odd, as ``_weight`` is."""
    return int.from_bytes(digest_of(b"".join(map(digest, vector[:_DOCUMENTS])))) | 1


def _cluster_digest(base: int, vector: Sequence[int]) -> int:
    """Return the digest of a cluster, from that of its documents and from its own numbers."""
    weighted: int = sum(map(mul, map(_weight, count()), vector[_DOCUMENTS:]))
    return base * (1 + weighted)


class FleetReader:
    """Decodes fleet versions in the order in which they were written, from a whole one on."""

    def __init__(self, document: Callable[[int], bytes]) -> None:
        """Start without a version; ``document`` returns a document by its number."""
        self._document = document
        self._parts = PartDecoder(document)
        self._digests: dict[int, bytes] = {}
        self._vectors: dict[int, list[int]] = {}
        self._cluster_digests: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._stale: set[int] = set()
        self._undigested: set[int] = set()
        self._gone: set[str] = set()

    def clear(self) -> None:
        """Forget all clusters: a whole version follows."""
        self._gone.update(self._names.values())
        self._vectors.clear()
        self._cluster_digests.clear()
        self._names.clear()
        self._stale.clear()
        self._undigested.clear()

    def read(self, changes: Iterable[VectorChange]) -> None:
        """Apply the changes that one decision saw.

        Raises:
            InputError: they do not follow from the last version.
        """
        try:
            for change in changes:
                self._read(change)
        except (KeyError, IndexError, ValueError):
            raise DamagedLedgerError("a fleet version of the ledger does not follow from the one before") from None

    def changes(self) -> tuple[list[Cluster], set[str]]:
        """Return the clusters that changed since the last call, and the names of those that are gone.

        Raises:
            InputError: a document is damaged.
        """
        clusters = []
        for slot in sorted(self._stale):
            cluster = self._parts.cluster(self._vectors[slot])
            self._names[slot] = cluster.name
            self._gone.discard(cluster.name)
            clusters.append(cluster)
        gone, self._gone = self._gone, set()
        self._stale.clear()
        return clusters, gone

    def names(self, slots: Iterable[int]) -> list[str]:
        """Return the names of clusters by slot. ``changes`` must have been called after the last delta."""
        return [self._names[slot] for slot in slots]

    def version(self) -> bytes:
        """Return the digest of the last version. Clusters that changed since the last call are digested again."""
        for slot in self._undigested:
            vector = self._vectors[slot]
            self._cluster_digests[slot] = _cluster_digest(_documents_digest(vector, self._digest), vector)
        self._undigested.clear()
        return (sum(self._cluster_digests.values()) & _MASK).to_bytes(DIGEST_BYTES)

    def _remove(self, slot: int) -> None:
        del self._vectors[slot]
        self._cluster_digests.pop(slot, None)
        self._stale.discard(slot)
        self._undigested.discard(slot)
        if slot in self._names:
            self._gone.add(self._names.pop(slot))

    def _read(self, change: VectorChange) -> None:
        slot = change.slot
        if change.kind == REMOVE:
            self._remove(slot)
            return
        if change.kind == SET:
            self._vectors[slot] = list(change.values)
        else:
            vector = self._vectors[slot]
            for position, added in zip(change.positions, change.values, strict=True):
                vector[position] += added
        self._stale.add(slot)
        self._undigested.add(slot)

    def _digest(self, number: int) -> bytes:
        digest = self._digests.get(number)
        if digest is None:
            digest = self._digests[number] = digest_of(self._document(number))
        return digest
