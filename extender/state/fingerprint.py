"""A version of what a service knows, which is equal in all processes that know the same objects.

Resource versions alone cannot be that: a process that started later has listed at another version than one that has
watched since, although both have the same objects. A fingerprint is the sum of the digests of all objects, so neither
the order of events nor how an object was received matters. A change of one object costs its two digests.
"""

import threading
from hashlib import blake2b
from typing import Final

from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import encode_json
from berthmaster.model.policy import Policy

_DIGEST_BYTES: Final = 16
_MODULUS: Final = 1 << (8 * _DIGEST_BYTES)


class Fingerprint:
    """The sum of the digests of objects. Safe for several threads."""

    def __init__(self) -> None:
        self.value = 0
        self._lock = threading.Lock()

    def add(self, difference: int) -> None:
        """Add what ``difference_of`` returned, or a sum of such numbers."""
        if difference:
            with self._lock:
                self.value = (self.value + difference) % _MODULUS

    def set(self, content: bytes) -> None:
        with self._lock:
            self.value = digest(content)


def digest(content: bytes) -> int:
    """Return the digest of an object."""
    return int.from_bytes(blake2b(content, digest_size=_DIGEST_BYTES).digest())


def difference_of(before: object | None, after: object | None) -> int:
    """Return what a change of an object adds to a fingerprint."""
    return (0 if after is None else digest(_content(after))) - (0 if before is None else digest(_content(before)))


def text_of(*values: int) -> str:
    """Return the version that the sum of fingerprints stands for."""
    return f"{sum(values) % _MODULUS:0{2 * _DIGEST_BYTES}x}"


def _content(value: object) -> bytes:
    """Return what distinguishes an object from every other one, and from its other versions."""
    if isinstance(value, Cluster | Policy | Binding) and value.metadata.resource_version:
        meta = value.metadata
        return f"{value.kind}/{meta.namespace}/{meta.name}/{meta.uid}/{meta.resource_version}".encode()
    return encode_json(value)
