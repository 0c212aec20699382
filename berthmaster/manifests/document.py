"""A document with its source, and the limits of reading."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from berthmaster.model.errors import FieldError, ManifestError

STDIN: Final = "<stdin>"


class ManifestLimits(NamedTuple):
    """The limits that guard against mistakes and attacks.

    Attributes:
        file_bytes: the largest size of a file, in bytes.
        depth: the deepest nesting of lists and mappings in a document.
        aliased_nodes: the largest number of values that the aliases of a YAML file may expand to, in total.
        documents: the largest number of documents in all files. Each item of a ``List`` counts.
    """

    file_bytes: int = 64 * 2**20
    depth: int = 100
    aliased_nodes: int = 100_000
    documents: int = 200_000


DEFAULT_LIMITS: Final = ManifestLimits()


@dataclass(frozen=True, slots=True)
class Document:
    """One API object as written in a manifest.

    Attributes:
        source: the path of the file, or ``<stdin>``.
        number: the number of the document in the file, from 1; empty documents count.
        prefix: the path of the object in the document: ``items[2]`` in a List, else empty.
        raw: the object. ``apiVersion``, ``kind`` and ``metadata.name`` are non-empty strings.
    """

    source: str
    number: int
    prefix: str
    raw: dict[str, Any]

    @property
    def api_version(self) -> str:
        return str(self.raw["apiVersion"])

    @property
    def kind(self) -> str:
        return str(self.raw["kind"])

    @property
    def name(self) -> str:
        return str(self.raw["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """``metadata.namespace``; empty if absent."""
        return str(self.raw["metadata"].get("namespace") or "")

    @property
    def place(self) -> str:
        """The position of the object for messages."""
        place = f"{self.source}: document {self.number}"
        return f"{place}: {self.prefix}" if self.prefix else place

    def error(self, error: FieldError) -> ManifestError:
        """Return the error of a field of the object with the position of the object."""
        placed = error.below(self.prefix) if self.prefix else error
        return ManifestError(self.source, self.number, placed.problem, placed.path)
