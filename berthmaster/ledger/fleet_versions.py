"""Fleet versions: the clusters that a decision read, as changes of the clusters of the decision before.

A cluster is divided into parts, and a change holds the parts that changed. The parts that change least are documents,
which many versions share. The resource version, the generation, owners and finalizers are left out: no decision reads
them. Numbers that change between two decisions are written once, with the later decision.

The digest of a version is the sum of the digests of its clusters. It finds accidents; the hash chain protects the
bytes.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import repeat
from operator import add, sub
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from berthmaster.deciding.decision_recorder import NO_CLUSTERS, LoggedFleet
from berthmaster.model.cluster import AllocatableModeling, APIEnablement, Cluster, ClusterStatus, ResourceSummary
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import DamagedLedgerError
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.quantity import Quantity

DIGEST_BYTES: Final = 16
_MASK: Final = (1 << (8 * DIGEST_BYTES)) - 1
_NONE: Final = -1


class ClusterParts(NamedTuple):
    """The parts of a cluster.

    Attributes:
        identity: the document with everything that is no other part. Its numbers are 0.
        numbers: the allocatable, allocated and allocating amounts in billionths, and the numbers of nodes by grade.
    """

    identity: int
    apis: int
    numbers: tuple[int, ...]


class ClusterChange(NamedTuple):
    """A change of a cluster.

    Attributes:
        added: what is added to its numbers; to 0 if its identity has changed. A text, because MessagePack has no
            integers above 64 bits.
    """

    identity: int | None
    apis: int | None
    added: str


FleetChange = dict[str, ClusterChange | None]
"""The changes from one version to the next, by cluster. None is a cluster that is gone."""


def digest_of(document: bytes) -> bytes:
    """Return the name of a document by its content."""
    return hashlib.blake2b(document, digest_size=DIGEST_BYTES).digest()


@dataclass(frozen=True, slots=True)
class _Entry:
    cluster: Cluster
    parts: ClusterParts
    digest: int


class FleetWriter:
    """Encodes fleet versions, each as a change of the one before. ``changed`` counts since the last whole version."""

    def __init__(self, number_of: Callable[[bytes], int], digest: Callable[[int], bytes]) -> None:
        """Start without a version; ``number_of`` returns the number of a document, and stores a new one."""
        self._number_of = number_of
        self._digest = digest
        self._last = NO_CLUSTERS
        self._entries: dict[str, _Entry] = {}
        self._version = 0
        self.changed = 0

    def __len__(self) -> int:
        return len(self._entries)

    def whole(self) -> FleetChange:
        """Return all clusters of the last version: the start of a batch whose reader needs no earlier batch."""
        self.changed = 0
        return {name: _change(None, entry.parts) for name, entry in self._entries.items()}

    def write(self, fleet: LoggedFleet) -> tuple[FleetChange, bytes]:
        """Return how the version that a decision saw differs from that of the last call, and its digest.

        It is quick to find what changed if the clusters follow those of the last call.
        """
        found: FleetChange = {}
        for name, change in fleet.since(self._last).items():
            before = self._entries.pop(name, None)
            after = None if change is None else self._entry_of(change, before)
            if after is not None:
                self._entries[name] = after
            if before is after:
                continue
            found[name] = None if after is None else _change(None if before is None else before.parts, after.parts)
            self._version += (0 if after is None else after.digest) - (0 if before is None else before.digest)
        self._last = fleet
        self.changed += len(found)
        self._version &= _MASK
        return found, self._version.to_bytes(DIGEST_BYTES)

    def _entry_of(self, cluster: Cluster, before: _Entry | None) -> _Entry:
        """Return a cluster. Documents that did not change are not encoded again."""
        apis = cluster.status.api_enablements
        same = before is not None and _same_identity(before.cluster, cluster)
        served = before is not None and before.cluster.status.api_enablements == apis
        parts = ClusterParts(
            before.parts.identity if before is not None and same else self._number_of(encode_json(_identity(cluster))),
            before.parts.apis if before is not None and served else self._number_of(encode_json(apis)),
            tuple(_numbers_of(cluster.status.resource_summary)),
        )
        if before is not None and parts == before.parts:
            return before
        return _Entry(cluster, parts, _digest_of(parts, self._digest))


def _identity(cluster: Cluster) -> Cluster:
    """Return the part of a cluster that changes least."""
    summary = cluster.status.resource_summary
    if summary is not None:
        summary = _with_numbers(summary, repeat(0))
    status = ClusterStatus(cluster.status.kubernetes_version, (), cluster.status.conditions, summary)
    return replace(cluster, metadata=_kept(cluster.metadata), status=status)


def _kept(meta: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(
        name=meta.name, labels=meta.labels, annotations=meta.annotations, deletion_timestamp=meta.deletion_timestamp
    )


def _same_identity(one: Cluster, other: Cluster) -> bool:
    ours, theirs = one.status, other.status
    # Tuples compare their elements by identity first. Versions that differ only in assumed replicas share these parts.
    return (
        (one.spec, ours.conditions, ours.kubernetes_version)
        == (other.spec, theirs.conditions, theirs.kubernetes_version)
        and (one.metadata is other.metadata or _kept(one.metadata) == _kept(other.metadata))
        and _names(ours.resource_summary) == _names(theirs.resource_summary)
    )


def _names(summary: ResourceSummary | None) -> list[list[str] | list[int]] | None:
    """Return what the numbers of a cluster are about, in their order: equal maps can differ in it."""
    if summary is None:
        return None
    amounts = summary.allocatable, summary.allocated, summary.allocating
    return [*([*names] for names in amounts), [each.grade for each in summary.allocatable_modelings]]


def _numbers_of(summary: ResourceSummary | None) -> list[int]:
    if summary is None:
        return []
    numbers = [amount.nanos for amount in summary.allocatable.values()]
    numbers += [amount.nanos for amount in summary.allocated.values()]
    numbers += [amount.nanos for amount in summary.allocating.values()]
    numbers += [modeling.count for modeling in summary.allocatable_modelings]
    return numbers


def _with_numbers(summary: ResourceSummary, numbers: Iterable[int]) -> ResourceSummary:
    """Return a summary with these numbers, as ``_numbers_of`` returns them. The texts of its quantities are empty."""
    left = iter(numbers)
    allocatable = {name: Quantity(nanos, "") for name, nanos in zip(summary.allocatable, left)}  # noqa: B905 - a part
    allocated = {name: Quantity(nanos, "") for name, nanos in zip(summary.allocated, left)}  # noqa: B905 - a part
    allocating = {name: Quantity(nanos, "") for name, nanos in zip(summary.allocating, left)}  # noqa: B905 - a part
    modelings = tuple(AllocatableModeling(each.grade, next(left)) for each in summary.allocatable_modelings)
    return ResourceSummary(allocatable, allocating, allocated, modelings)


def _change(before: ClusterParts | None, after: ClusterParts) -> ClusterChange:
    apis = None if before is not None and before.apis == after.apis else after.apis
    if before is None or before.identity != after.identity:
        return ClusterChange(after.identity, apis, " ".join(map(str, after.numbers)))
    return ClusterChange(None, apis, " ".join(map(str, map(sub, after.numbers, before.numbers))))


def _after(before: ClusterParts | None, change: ClusterChange) -> ClusterParts:
    try:
        numbers = tuple(map(int, change.added.split()))
        if change.identity is None and before is not None:
            if len(numbers) != len(before.numbers):
                raise _unrelated()
            numbers = tuple(map(add, before.numbers, numbers))
    except ValueError:
        raise _unrelated() from None
    known = before or ClusterParts(_NONE, _NONE, ())
    identity = known.identity if change.identity is None else change.identity
    apis = known.apis if change.apis is None else change.apis
    if _NONE in {identity, apis}:
        raise _unrelated()
    return ClusterParts(identity, apis, numbers)


def _unrelated() -> DamagedLedgerError:
    return DamagedLedgerError("a fleet version of the ledger does not follow from the one before")


def _digest_of(parts: ClusterParts, digest: Callable[[int], bytes]) -> int:
    numbers = " ".join(map(str, parts.numbers)).encode()
    return int.from_bytes(digest_of(digest(parts.identity) + digest(parts.apis) + numbers))


class FleetReader:
    """Decodes fleet versions in the order in which they were written, from a whole one on."""

    def __init__(self, document: Callable[[int], bytes]) -> None:
        """Start without a version; ``document`` returns a document by its number."""
        self._document = document
        self._decoded: dict[int, Any] = {}
        self._document_digests: dict[int, bytes] = {}
        self._parts: dict[str, ClusterParts] = {}
        self._digests: dict[str, int] = {}
        self._stale: set[str] = set()
        self._undigested: set[str] = set()
        self._gone: set[str] = set()

    def start(self, whole: FleetChange) -> None:
        self._gone.update(self._parts)
        self._parts.clear()
        self._digests.clear()
        self.read(whole)

    def read(self, changes: FleetChange) -> None:
        """Apply the changes that one decision saw. Raises ``InputError`` if they follow from another version."""
        for name, change in changes.items():
            before = self._parts.pop(name, None)
            if change is None:
                if before is None:
                    raise _unrelated()
                self._digests.pop(name, None)
                self._gone.add(name)
            else:
                self._parts[name] = _after(before, change)
                self._gone.discard(name)
            self._stale.add(name)
            self._undigested.add(name)

    def changes(self) -> tuple[list[Cluster], set[str]]:
        """Return the clusters that changed since the last call, and the names of those that are gone."""
        clusters = [self._cluster(self._parts[name]) for name in sorted(self._stale & self._parts.keys())]
        gone, self._gone = self._gone, set()
        self._stale.clear()
        return clusters, gone

    def version(self) -> bytes:
        """Return the digest of the last version. Clusters that changed since the last call are digested again."""
        for name in self._undigested & self._parts.keys():
            self._digests[name] = _digest_of(self._parts[name], self._digest)
        self._undigested.clear()
        return (sum(self._digests.values()) & _MASK).to_bytes(DIGEST_BYTES)

    def _cluster(self, parts: ClusterParts) -> Cluster:
        base: Cluster = self._part(parts.identity, Cluster)
        summary = base.status.resource_summary
        if len(parts.numbers) != len(_numbers_of(summary)):
            raise DamagedLedgerError("the resources of a cluster in the ledger are damaged")
        if summary is not None:
            summary = _with_numbers(summary, parts.numbers)
        apis = self._part(parts.apis, tuple[APIEnablement, ...])
        return replace(base, status=replace(base.status, api_enablements=apis, resource_summary=summary))

    def _part(self, number: int, kind: Any) -> Any:  # noqa: ANN401 - the type of the part
        """Return a decoded document. Each one is decoded once."""
        if number not in self._decoded:
            self._decoded[number] = decode_json(kind, self._document(number))
        return self._decoded[number]

    def _digest(self, number: int) -> bytes:
        digest = self._document_digests.get(number)
        if digest is None:
            digest = self._document_digests[number] = digest_of(self._document(number))
        return digest
