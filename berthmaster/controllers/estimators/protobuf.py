"""The little of protobuf's wire format that the estimators' messages need (protobuf.dev/programming-guides/encoding).

Written out here because it is smaller than describing the messages to a protobuf library, and spares every install that
dependency. Tests hold it against the library.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from berthmaster.model.errors import ServiceError

_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH: Final = 2
_FIXED32: Final = 5
_FIXED_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BYTES: Final = 10
_MASK_64: Final = 2**64 - 1
_MASK_32: Final = 2**32 - 1


def message(number: int, content: bytes) -> bytes:
    """A field that holds a message or bytes; it is there even if it holds nothing."""
    return _varint(number << 3 | _LENGTH) + _varint(len(content)) + content


def text(number: int, content: str) -> bytes:
    """A field that holds a string; an empty one is left out."""
    return message(number, content.encode()) if content else b""


def integer(number: int, value: int) -> bytes:
    """A field that holds an ``int32`` or ``int64``, even if it is 0."""
    return _varint(number << 3 | _VARINT) + _varint(value & _MASK_64)


def entries(number: int, pairs: Iterable[tuple[str, bytes]]) -> bytes:
    """A field that holds a map from strings to bytes, or to strings as bytes; in the order of the keys."""
    return b"".join(message(number, text(1, key) + message(2, value)) for key, value in sorted(pairs))


def int32(content: bytes, number: int) -> int:
    """The ``int32`` in a field of a message, 0 where it is absent; the last one counts, as protobuf has it.

    Raises:
        ServiceError: this is no message.
    """
    value = 0
    for found, each in _integers(content):
        if found == number:
            value = each & _MASK_32
    return value - 2**32 if value >= 2**31 else value


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _integers(content: bytes) -> Iterator[tuple[int, int]]:
    """The number and value of each field of integers; all others are passed over."""
    position = 0
    while position < len(content):
        tag, position = _read_varint(content, position)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise ServiceError("the answer is no protobuf message: a field has the number 0")
        if kind == _VARINT:
            value, position = _read_varint(content, position)
            yield number, value
            continue
        if kind == _LENGTH:
            size, position = _read_varint(content, position)
        elif kind in _FIXED_SIZES:
            size = _FIXED_SIZES[kind]
        else:
            raise ServiceError(f"the answer is no protobuf message: field {number} has the wire type {kind}")
        position += size
        if position > len(content):
            raise ServiceError("the answer is no protobuf message: it ends in the middle of a field")


def _read_varint(content: bytes, position: int) -> tuple[int, int]:
    """An integer and where it ends."""
    value = 0
    for index, byte in enumerate(content[position : position + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value & _MASK_64, position + index + 1
    raise ServiceError("the answer is no protobuf message: an integer does not end")
