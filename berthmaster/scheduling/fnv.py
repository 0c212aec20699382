"""The FNV hashes of 32 bits with which Karmada and KubeAdmiral break ties."""

from functools import lru_cache
from typing import Final

_OFFSET: Final = 0x811C9DC5
_PRIME: Final = 0x01000193


def fnv1_32(data: bytes, digest: int = _OFFSET) -> int:
    """Return the FNV-1 hash, which multiplies first (KubeAdmiral). It continues from the hash of earlier bytes."""
    for byte in data:
        digest = digest * _PRIME & 0xFFFFFFFF ^ byte
    return digest


def fnv1a_32(data: bytes) -> int:
    """Return the FNV-1a hash, which multiplies last (Karmada)."""
    digest = _OFFSET
    for byte in data:
        digest = (digest ^ byte) * _PRIME & 0xFFFFFFFF
    return digest


@lru_cache(maxsize=8192)
def fnv1_32_of_name(name: str) -> int:
    """Return the FNV-1 hash of a name, from which many hashes continue."""
    return fnv1_32(name.encode())
