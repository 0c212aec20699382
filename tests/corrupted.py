"""Documents that are almost JSON."""

PARTS = [b"\xff", b"\xed\xa0\x80", b"\xc3", rb"\ud800", b"[" * 3000, b"\x00", b"", b"1e999", b'"', b"null"]
"""What can stand in the place of a byte."""


def corrupted_at(document: bytes, at: int, part: bytes) -> bytes:
    """Replace one byte of a document by a part."""
    return document[:at] + part + document[at + 1 :]
