"""The hash chain of the ledger.

Each segment continues the opening of the segment before, each batch continues the batch before. A digest without a key
finds accidents and careless changes. Who can change the whole database can compute a new chain; compare the digest of
``berthmaster ledger verify`` with one that was kept elsewhere to find that.
"""

import hashlib
from typing import Final

from berthmaster.ledger.batches import SealedBatch
from berthmaster.ledger.entries import FORMAT

GENESIS: Final = bytes(32)
"""The digest before the first segment."""


def opening_digest(previous: bytes, segment: int, role: str, writer: str, opened_us: int) -> bytes:
    """Return the digest with which a segment starts."""
    return _digest(previous, b"segment", segment, role, writer, opened_us, FORMAT)


def batch_digest(previous: bytes, batch: SealedBatch) -> bytes:
    """Return the digest of a segment after a batch."""
    return _digest(
        previous, b"batch", batch.number, batch.start, batch.first_document, batch.document_count, len(batch.rows),
        batch.rows[0].sequence, batch.first_us, batch.last_us, batch.payload, batch.documents,
    )  # fmt: skip


def _digest(*parts: bytes | str | int) -> bytes:
    """Return a digest of parts with their lengths, so that no two lists of parts give the same bytes."""
    hashed = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        hashed.update(len(data).to_bytes(8))
        hashed.update(data)
    return hashed.digest()
