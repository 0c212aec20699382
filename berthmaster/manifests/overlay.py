"""Objects of files over the objects of a dump or of an API server, as ``kubectl apply`` would replace them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from berthmaster.manifests.document import Document, Identity
from berthmaster.manifests.snapshot import is_snapshot
from berthmaster.model.control_planes import is_owned
from berthmaster.model.kinds import group_of

_POLICIES: Final = "policy.karmada.io"
_SCHEDULER: Final = "schedulerName"
_SERVER_FIELDS: Final = ("uid", "creationTimestamp", "generation", "resourceVersion")


def overlaid(base: Iterable[Document], top: Sequence[Document]) -> list[Document]:
    """Return the documents of the base in order, each replaced by the object of the top that would be applied to it.

    That keeps what an apply never changes: the status if it has none, the UID, and the labels and annotations by which
    control planes record claims. New objects follow, and all policies of the top, in the order of their application.
    """
    given: dict[Identity, Document] = {}
    for document in top:
        given.setdefault(document.identity, document)
    result: list[Document] = []
    stored: dict[int, Document] = {}
    for document in base:
        over = given.get(document.identity)
        if over is None:
            result.append(document)
            continue
        stored[id(over)] = document
        if not _is_policy(over):
            result.append(_over(document, over))
    # A second object of the same identity stays, so that it is reported as a duplicate.
    for over in top:
        before = stored.get(id(over))
        if before is None:
            result.append(replace(over, applied=True))
        elif _is_policy(over):
            result.append(_over(before, over))
    return result


def over_dumps(documents: Sequence[Document]) -> Sequence[Document]:
    dumps = dump_sources(documents)
    if not dumps:
        return documents
    base = [document for document in documents if document.source in dumps]
    top = [document for document in documents if document.source not in dumps]
    return overlaid(base, top)


def dump_sources(documents: Iterable[Document]) -> frozenset[str]:
    return frozenset(each.source for each in documents if is_snapshot(each) and not each.is_live)


def _is_policy(document: Document) -> bool:
    return group_of(document.api_version) == _POLICIES


def _over(stored: Document, over: Document) -> Document:
    """Return a document over the stored one. A policy that names no scheduler keeps that of the stored one."""
    raw = over.raw
    given, before = raw.get("spec"), stored.raw.get("spec")
    if _is_policy(over) and isinstance(given, dict) and isinstance(before, dict) and not given.get(_SCHEDULER):
        kept = {_SCHEDULER: before[_SCHEDULER]} if before.get(_SCHEDULER) else {}
        raw = {**raw, "spec": {**given, **kept}}
    return replace(over, raw=_applied(stored.raw, raw), applied=True, replaced=stored.raw)


def _applied(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    before, after = stored["metadata"], given["metadata"]
    metadata = {**{key: before[key] for key in _SERVER_FIELDS if key in before}, **after}
    for part in ("labels", "annotations"):
        kept = {key: value for key, value in (before.get(part) or {}).items() if is_owned(key)}
        if kept or after.get(part):
            metadata[part] = {**kept, **(after.get(part) or {})}
    status = {"status": stored["status"]} if "status" in stored else {}
    return {**status, **given, "metadata": metadata}
