"""A manifest with the place it came from, and the limits within which manifests are read."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from berthmaster.model.errors import FieldError, ManifestError

STDIN: Final = "<stdin>"


class ManifestLimits(NamedTuple):
    """How much is read before something is taken for a mistake or an attack.

    Attributes:
        file_bytes: the size of one file.
        depth: how deeply lists and mappings may be nested in a document.
        aliased_nodes: how many values the aliases of one YAML file may stand for, all in all.
        documents: how many documents there may be in all files, the items of a ``List`` counted each.
    """

    file_bytes: int = 64 * 2**20
    depth: int = 100
    aliased_nodes: int = 100_000
    documents: int = 200_000


DEFAULT_LIMITS: Final = ManifestLimits()


@dataclass(frozen=True, slots=True)
class Document:
    """One object of an API as its author wrote it.

    Attributes:
        source: the file's path, or ``<stdin>``.
        number: which document of the file it is, from 1; empty documents count.
        prefix: where it stands in that document: ``items[2]`` in a List, else empty.
        raw: the object. ``apiVersion``, ``kind`` and ``metadata.name`` are non-empty strings.
    """

    source: str
    number: int
    prefix: str
    raw: dict[str, Any]

    @property
    def api_version(self) -> str:
        """``apiVersion`` as written."""
        return str(self.raw["apiVersion"])

    @property
    def kind(self) -> str:
        """``kind`` as written."""
        return str(self.raw["kind"])

    @property
    def name(self) -> str:
        """``metadata.name`` as written."""
        return str(self.raw["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """``metadata.namespace``, empty when absent."""
        return str(self.raw["metadata"].get("namespace") or "")

    @property
    def place(self) -> str:
        """Where it is, in words."""
        place = f"{self.source}: document {self.number}"
        return f"{place}: {self.prefix}" if self.prefix else place

    def error(self, error: FieldError) -> ManifestError:
        """An error of one of its fields, with the place."""
        placed = error.below(self.prefix) if self.prefix else error
        return ManifestError(self.source, self.number, placed.problem, placed.path)
