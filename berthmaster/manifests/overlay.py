"""Overlay: objects of files replace the objects of a dump or of an API server, as ``kubectl apply`` would."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from berthmaster.manifests.document import Document, Identity
from berthmaster.manifests.snapshot import is_snapshot
from berthmaster.model.kinds import group_of

_CONTROL_PLANES: Final = ("karmada.io", "kubeadmiral.io")
_POLICIES: Final = "policy.karmada.io"
_SCHEDULER: Final = "schedulerName"
_SERVER_FIELDS: Final = ("uid", "creationTimestamp", "generation", "resourceVersion")


def overlaid(base: Iterable[Document], top: Sequence[Document]) -> list[Document]:
    """Return the documents of the base, in order, replaced by those of the top; new objects follow.

    Args:
        base: the stored objects.
        top: the objects that would be applied. Each replaces the stored object of the same identity. It keeps what
            an apply never changes: the status if it has none, the UID, and the labels and annotations by which Karmada
            and KubeAdmiral record claims.
    """
    given: dict[Identity, Document] = {}
    for document in top:
        given.setdefault(document.identity, document)
    result, used = [], set()
    for document in base:
        over = given.get(document.identity)
        if over is None:
            result.append(document)
            continue
        used.add(id(over))
        raw = _applied(document.raw, _with_scheduler(document, over))
        result.append(replace(over, raw=raw, applied=True, replaced=document.raw))
    # A second object of the same identity stays, so that it is reported as a duplicate.
    return result + [replace(document, applied=True) for document in top if id(document) not in used]


def over_dumps(documents: Sequence[Document]) -> Sequence[Document]:
    """Overlay the documents of other files on those of dumps."""
    dumps = dump_sources(documents)
    if not dumps:
        return documents
    base = [document for document in documents if document.source in dumps]
    top = [document for document in documents if document.source not in dumps]
    return overlaid(base, top)


def dump_sources(documents: Iterable[Document]) -> frozenset[str]:
    """Return the files that are dumps. A dump has a ``FleetSnapshot``."""
    return frozenset(each.source for each in documents if is_snapshot(each) and not each.is_live)


def _with_scheduler(stored: Document, over: Document) -> dict[str, Any]:
    """Return a policy with the scheduler of the stored one if it names none: an apply leaves that field alone."""
    raw = over.raw
    given, before = raw.get("spec"), stored.raw.get("spec")
    if group_of(over.api_version) != _POLICIES or not isinstance(given, dict) or not isinstance(before, dict):
        return raw
    kept = before.get(_SCHEDULER)
    return raw if given.get(_SCHEDULER) or not kept else {**raw, "spec": {**given, _SCHEDULER: kept}}


def _applied(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    before, after = stored["metadata"], given["metadata"]
    metadata = {**{key: before[key] for key in _SERVER_FIELDS if key in before}, **after}
    for field in ("labels", "annotations"):
        kept = {key: value for key, value in (before.get(field) or {}).items() if _is_of_control_plane(key)}
        if kept or after.get(field):
            metadata[field] = {**kept, **(after.get(field) or {})}
    status = {"status": stored["status"]} if "status" in stored else {}
    return {**status, **given, "metadata": metadata}


def _is_of_control_plane(key: str) -> bool:
    prefix = key.partition("/")[0]
    return any(prefix == each or prefix.endswith(f".{each}") for each in _CONTROL_PLANES)
