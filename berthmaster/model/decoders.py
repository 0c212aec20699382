"""Decoders, made by one thread at a time.

While msgspec reads the annotations of a type it lets other threads decode with what it has read so far, and the process
ends with SIGSEGV (0.22.0: ``StructInfo_Convert`` stores a type before its fields). A module needs none of this for a
decoder that it makes as it is imported, of types that are its own: nobody else has them yet.
"""

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

_READING: Final = threading.Lock()


def decoder_of(kind: type[T], hook: Callable[[type, Any], Any]) -> msgspec.json.Decoder[T]:
    """A decoder of a type. Once it is there, msgspec knows the type, and ``msgspec.convert`` to it is safe, too."""
    with _READING:
        return msgspec.json.Decoder(kind, dec_hook=hook)
