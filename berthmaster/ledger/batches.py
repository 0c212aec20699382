"""The batches in which the ledger writes its entries.

Each batch is compressed as a whole, because its records are alike.
"""

from typing import Final, NamedTuple

import msgspec

from berthmaster.ledger.entries import Entry, RecordRow
from berthmaster.ledger.fleet_versions import FleetChange
from berthmaster.model.errors import DamagedLedgerError

_ENCODER: Final = msgspec.msgpack.Encoder()


class BatchContent(msgspec.Struct, frozen=True, array_like=True):
    """What the payload of a batch holds. ``whole`` has the clusters before it; None if those after the batch before."""

    whole: FleetChange | None
    entries: list[Entry]


class SealedBatch(NamedTuple):
    """Encoded entries that one transaction writes.

    Attributes:
        start: the number of the batch from which to read: the last one that starts with a whole fleet version.
        documents: the compressed documents that no earlier batch of the segment has.
        clusters: the names of the clusters whose replicas a decision changes, or that a note is about.
    """

    number: int
    start: int
    first_document: int
    document_count: int
    payload: bytes
    documents: bytes
    rows: list[RecordRow]
    clusters: list[str]

    @property
    def first_us(self) -> int:
        """The earliest time of a record. Records of several threads are nearly, and not quite, in the order of time."""
        return min(row.at_us for row in self.rows)

    @property
    def last_us(self) -> int:
        return max(row.at_us for row in self.rows)

    @property
    def size(self) -> int:
        return len(self.payload) + len(self.documents)


_DECODER: Final = msgspec.msgpack.Decoder(BatchContent)


def encode_batch(content: BatchContent) -> bytes:
    """Encode the payload of a batch."""
    return _ENCODER.encode(content)


def decode_batch(payload: bytes) -> BatchContent:
    """Decode the payload of a batch. Raises ``InputError`` if the bytes are no payload."""
    try:
        return _DECODER.decode(payload)
    except msgspec.DecodeError as error:
        raise DamagedLedgerError(f"a batch of the ledger cannot be decoded: {error}") from None
