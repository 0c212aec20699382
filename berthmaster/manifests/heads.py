"""The head of an object: its type and its metadata. An API server refuses an object whose head is wrong."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from berthmaster.model.errors import FieldError
from berthmaster.model.hints import closest
from berthmaster.model.unknown_types import unknown_type

_METADATA: Final = (
    "annotations", "clusterName", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers",
    "generateName", "generation", "labels", "managedFields", "name", "namespace", "ownerReferences", "resourceVersion",
    "selfLink", "uid",
)  # fmt: skip
"""The fields of ``ObjectMeta``, with those of earlier versions of Kubernetes."""
_REQUIRED: Final = ("apiVersion", "kind", "metadata")
_MISSPELLED: Final = 0.8
NESTED_LIST: Final = "is a List in a List, which kubectl does not read; move its items to the outer List"


def head_errors(raw: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield what is wrong with the head of an object that a person wrote.

    Covers a type that no API server has, and a misspelled field of the metadata.
    """
    api_version, kind = raw.get("apiVersion"), raw.get("kind")
    if isinstance(api_version, str) and isinstance(kind, str):
        unknown = unknown_type(api_version, kind)
        if unknown is not None:
            yield unknown
    metadata = raw.get("metadata")
    if isinstance(metadata, Mapping):
        for key, meant in misspelled_keys(metadata, _METADATA):
            yield FieldError(f"metadata.{key}", "unknown field", f"did you mean {meant}?")


def required_errors(raw: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield each field that stands for a missing one of the head, such as ``apiversion``."""
    missing = [each for each in _REQUIRED if each not in raw]
    for key, meant in misspelled_keys(raw, missing):
        yield FieldError(key, "unknown field", f"did you mean {meant}?")


def is_list(raw: Mapping[str, Any]) -> bool:
    """Return whether a document is a list of objects, such as a ``List`` or a ``ConfigMapList``."""
    return str(raw.get("kind", "")).endswith("List") and "items" in raw


def misspelled_keys(raw: Mapping[str, Any], known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each key that is probably a misspelling of a known one, and the known one."""
    for key in raw:
        if not isinstance(key, str) or key in known:
            continue
        same = next((each for each in known if each.lower() == key.lower()), "")
        close = same or closest(key, known, _MISSPELLED)
        if close:
            yield key, close
