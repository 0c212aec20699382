"""Fleet versions: the clusters that a decision read, as a delta on the clusters of the decision before.

A cluster is a vector of integers: the numbers of its four documents, then its own numbers. A delta holds the positions
that changed, column by column. Numbers of clusters that change between two decisions are written once, with the later
decision. The digest of a version is the sum of the digests of its clusters, and that of a cluster is linear in its
numbers, so that a changed number takes one multiplication. It finds accidents; the hash chain protects the bytes.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import compress, count
from operator import is_not, mul, sub
from typing import Final

from berthmaster.ledger.cluster_parts import (
    PartDecoder,
    ShapeKey,
    allocating_of,
    enablements_of,
    identity_of,
    models_of,
    numbers_of,
    only_allocating_differs,
    same_identity,
    shape_key,
    shape_of,
)
from berthmaster.ledger.integers import IntegerReader, put, put_ascending, put_column
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import InputError

DIGEST_BYTES: Final = 16
_DOCUMENTS: Final = 4
"""A vector starts with the numbers of the documents: identity, enablements, models, shape."""
_SHAPE: Final = 3
_MASK: Final = (1 << (8 * DIGEST_BYTES)) - 1
_DELTA, _WHOLE = 0, 1
_Groups = dict[tuple[int, ...], list[tuple[int, list[int]]]]
"""Changed clusters by the kind of their change: the slot and the values of each."""


def digest_of(document: bytes) -> bytes:
    """Return the name of a document by its content."""
    return hashlib.blake2b(document, digest_size=DIGEST_BYTES).digest()


@dataclass(slots=True)
class _Entry:
    """A cluster of the last version: its slot, its vector, the digest of its documents, and what they were made of."""

    slot: int
    cluster: Cluster
    vector: list[int]
    base: int


class FleetWriter:
    """Encodes fleet versions, each as a delta on the one before.

    Attributes:
        changed: how many clusters were written since the last whole version.
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
        self._last: Sequence[Cluster | None] = ()
        self._entries: dict[str, _Entry] = {}
        self._free_slots: list[int] = []
        self._version = 0
        self.changed = 0

    def __len__(self) -> int:
        return len(self._entries)

    def slot_of(self, name: str) -> int | None:
        """Return the slot of a cluster of the last version."""
        entry = self._entries.get(name)
        return None if entry is None else entry.slot

    @property
    def version(self) -> bytes:
        """The digest of the last version."""
        return self._version.to_bytes(DIGEST_BYTES)

    def whole(self) -> None:
        """Make the next version whole: its reader needs no earlier one."""
        self._shapes.clear()
        self._last = ()
        self._entries.clear()
        self._free_slots.clear()
        self._version = 0
        self.changed = 0

    def write(self, clusters: Sequence[Cluster | None]) -> bytes:
        """Return the delta to a list of clusters. Identity is compared first, and the order does not matter."""
        groups: _Groups = {}
        before, after = self._differences(clusters, groups)
        removed = sorted(self._remove(name) for name in before - after.keys() if name in self._entries)
        for name in sorted(after):
            self._update(name, after[name], groups)
        self._last = clusters
        self._version &= _MASK
        out = bytearray()
        put_ascending(out, removed)
        put(out, len(groups))
        for signature in sorted(groups):
            _put_group(out, signature, sorted(groups[signature]))
            self.changed += len(groups[signature])
        return bytes(out)

    def _differences(self, clusters: Sequence[Cluster | None], groups: _Groups) -> tuple[set[str], dict[str, Cluster]]:
        """Return the names and the clusters at the rows that changed, before and after.

        Most of them only differ in their allocating amounts. These are stored at once, and are not returned.
        """
        last = self._last
        before, after = set(), {}
        for row in compress(count(), map(is_not, last, clusters)):
            old, new = last[row], clusters[row]
            if old is not None and new is not None and only_allocating_differs(old, new):
                self._update_allocating(self._entries[new.metadata.name], new, groups)
                continue
            if old is not None:
                before.add(old.name)
            if new is not None:
                after[new.name] = new
        before.update(each.name for each in last[len(clusters) :] if each is not None)
        after.update((each.name, each) for each in clusters[len(last) :] if each is not None)
        return before, after

    def _remove(self, name: str) -> int:
        entry = self._entries.pop(name)
        self._version -= _cluster_digest(entry.base, entry.vector)
        self._free_slots.append(entry.slot)
        return entry.slot

    def _update(self, name: str, cluster: Cluster, groups: _Groups) -> None:
        """Store a cluster, and add its change to those of its kind."""
        entry = self._entries.get(name)
        vector = self._vector(cluster, entry)
        if entry is None:
            slot = self._free_slots.pop() if self._free_slots else len(self._entries)
            entry = self._entries[name] = _Entry(slot, cluster, [], 0)
        if entry.vector and entry.vector[_SHAPE] == vector[_SHAPE]:
            positions = [at for at, (old, new) in enumerate(zip(entry.vector, vector, strict=True)) if old != new]
            signature, values = (_DELTA, *positions), [vector[at] - entry.vector[at] for at in positions]
        else:
            signature, values = (_WHOLE, len(vector)), vector
        if values:
            base = _documents_digest(vector, self._digest)
            self._version += _cluster_digest(base, vector)
            if entry.vector:
                self._version -= _cluster_digest(entry.base, entry.vector)
            groups.setdefault(signature, []).append((entry.slot, values))
            entry.vector, entry.base = vector, base
        entry.cluster = cluster

    def _update_allocating(self, entry: _Entry, cluster: Cluster, groups: _Groups) -> None:
        """Store a cluster of which at most the allocating amounts differ; see ``_update``."""
        first, amounts = allocating_of(cluster)
        own = range(_DOCUMENTS + first, _DOCUMENTS + first + len(amounts))
        changes = list(map(sub, amounts, entry.vector[own.start : own.stop]))
        entry.cluster, entry.vector[own.start : own.stop] = cluster, amounts
        if all(changes):
            signature = (_DELTA, *own)
        else:
            signature = (_DELTA, *compress(own, changes))
            changes = list(filter(None, changes))
        if changes:
            self._version += entry.base * sum(map(mul, _weights(signature), changes))
            groups.setdefault(signature, []).append((entry.slot, changes))

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


def _put_group(out: bytearray, signature: tuple[int, ...], members: list[tuple[int, list[int]]]) -> None:
    kind, *rest = signature
    put(out, kind)
    if kind == _WHOLE:
        put(out, rest[0])
    else:
        put_ascending(out, rest)
    put_ascending(out, [slot for slot, _ in members])
    for column in zip(*(values for _, values in members), strict=True):
        put_column(out, column)


@cache
def _weight(position: int) -> int:
    """Return the factor of a number in the digest of its cluster. It is odd, so that no change is multiplied to 0."""
    return int.from_bytes(digest_of(str(position).encode())) | 1


@lru_cache(256)
def _weights(signature: tuple[int, ...]) -> tuple[int, ...]:
    """Return the factors of the positions of a delta."""
    return tuple(_weight(at - _DOCUMENTS) for at in signature[1:])


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

    def whole(self) -> None:
        """Forget all clusters: the next delta is a whole version."""
        self._gone.update(self._names.values())
        self._vectors.clear()
        self._cluster_digests.clear()
        self._names.clear()
        self._stale.clear()
        self._undigested.clear()

    def read(self, delta: bytes) -> None:
        """Apply a delta.

        Raises:
            InputError: the delta is damaged, or it is no delta on the last version.
        """
        reader = IntegerReader(delta)
        try:
            for slot in reader.ascending():
                self._remove(slot)
            for _ in range(reader.number()):
                self._read_group(reader)
        except (KeyError, IndexError):
            raise InputError("a fleet version of the ledger does not follow from the one before") from None

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

    def _read_group(self, reader: IntegerReader) -> None:
        kind = reader.number()
        positions = range(reader.number()) if kind == _WHOLE else reader.ascending()
        slots = reader.ascending()
        columns = [reader.column(len(slots)) for _ in positions]
        for row, slot in enumerate(slots):
            if kind == _WHOLE:
                self._vectors[slot] = [column[row] for column in columns]
            else:
                vector = self._vectors[slot]
                for position, column in zip(positions, columns, strict=True):
                    vector[position] += column[row]
        self._stale.update(slots)
        self._undigested.update(slots)

    def _digest(self, number: int) -> bytes:
        digest = self._digests.get(number)
        if digest is None:
            digest = self._digests[number] = digest_of(self._document(number))
        return digest
