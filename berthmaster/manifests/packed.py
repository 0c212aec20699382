"""Files that gzip packed, and addresses, which are not read."""

import re
import zlib
from typing import Final

from berthmaster.model.errors import ManifestError

GZIP: Final = ".gz"
_MAGIC: Final = b"\x1f\x8b"
_ADDRESS: Final = re.compile(r"https?://", re.IGNORECASE)
_DOWNLOAD: Final = "addresses are not read; download it first: curl -sSfL ADDRESS | berthmaster ... -f -"


def refuse_address(path: str) -> None:
    """Raise ``ManifestError`` with a remedy if a path is the address of a file on a server."""
    if _ADDRESS.match(path):
        raise ManifestError(path, None, _DOWNLOAD)


def unpacked(data: bytes, source: str, limit: int) -> bytes:
    """Return the content of a file that gzip packed; another file as it is. The limit applies to the content."""
    if not data.startswith(_MAGIC):
        return data
    content = bytearray()
    while data and len(content) <= limit:
        unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        try:
            content += unpacker.decompress(data, limit + 1 - len(content))
        except zlib.error as error:
            raise ManifestError(source, None, f"not valid gzip: {error}") from None
        if not unpacker.eof and len(content) <= limit:
            raise ManifestError(source, None, "not valid gzip: the file is cut off")
        data = unpacker.unused_data  # a file may have several parts
    return within(bytes(content), source, limit)


def within(data: bytes, source: str, limit: int) -> bytes:
    """Return a content, unless it is larger than a limit."""
    if len(data) > limit:
        raise ManifestError(source, None, f"larger than {limit} bytes")
    return data
