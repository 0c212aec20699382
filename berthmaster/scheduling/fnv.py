"""The hash FNV-1, of which Karmada and KubeAdmiral break ties."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

_OFFSET: Final = 0x811C9DC5
_PRIME: Final = 0x01000193
_FEW_NAMES: Final = 32


def fnv1_32(data: bytes, digest: int = _OFFSET) -> int:
    """Return the FNV-1 hash, which multiplies first (KubeAdmiral). It continues from the hash of earlier bytes."""
    for byte in data:
        digest = digest * _PRIME & 0xFFFFFFFF ^ byte
    return digest


def fnv1_32_of_names(names: Sequence[str], data: bytes) -> list[int]:
    """Return the FNV-1 hash of each name, continued with the same bytes."""
    if len(names) < _FEW_NAMES:
        return [fnv1_32(data, fnv1_32_of_name(name)) for name in names]
    found: list[int] = fnv1_32_continued(np.array(list(map(fnv1_32_of_name, names)), dtype=np.uint32), data).tolist()
    return found


def fnv1_32_continued(digests: NDArray[np.uint32], data: bytes) -> NDArray[np.uint32]:
    """Continue FNV-1 hashes, all with the same bytes."""
    digests = digests.copy()
    for byte in data:
        digests *= np.uint32(_PRIME)
        digests ^= np.uint32(byte)
    return digests


@lru_cache(maxsize=8192)
def fnv1_32_of_name(name: str) -> int:
    """Return the FNV-1 hash of a name, from which many hashes continue."""
    return fnv1_32(name.encode())
