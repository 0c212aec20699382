"""The limits of what files may contain."""

from typing import Final, NamedTuple


class ManifestLimits(NamedTuple):
    """The limits that guard against mistakes and attacks.

    Attributes:
        aliased_nodes: the largest number of values that the aliases of a YAML file may expand to, in total.
        documents: the largest number of documents in all files. Each item of a ``List`` counts.
    """

    file_bytes: int = 64 * 2**20
    depth: int = 100
    aliased_nodes: int = 100_000
    documents: int = 200_000


DEFAULT_LIMITS: Final = ManifestLimits()
