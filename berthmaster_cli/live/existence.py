"""Reads whether objects exist: those that policies wait for, and the resources that a workload needs."""

from collections.abc import Iterable, Sequence
from typing import Final

from berthmaster.kube.served_types import ServedTypes
from berthmaster.manifests.document import Document
from berthmaster.model.binding import Binding
from berthmaster.model.decode import convert
from berthmaster.model.dependencies import Dependency, dependencies_of, recorded_dependencies
from berthmaster.model.errors import ApiError, FieldError
from berthmaster.model.existing import WaitedFor, waited_for
from berthmaster.model.gaps import Gap
from berthmaster.model.kinds import group_of
from berthmaster.model.meta import Key
from berthmaster.model.policy import Policy, defaulted
from berthmaster_cli.live.collections import CollectionReader
from berthmaster_cli.live.fleet import BINDING_GROUP, FleetRead, concurrently, forbidden

_MOST: Final = 200
"""The most objects that are looked up, each by its name. The existence of others is not known."""


def read_waited_for(reader: CollectionReader, types: ServedTypes, read: FleetRead, over: Sequence[Document]) -> None:
    """Record whether the overrides and priority classes exist that policies name.

    Args:
        read: what was read; gets what exists, and the gaps.
        over: objects that will be laid over the stored ones.
    """
    names = list(dict.fromkeys(waited_for(_policies(read.policies(over)))))[:_MOST]

    def look(name: str) -> bool | Gap | None:
        return _exists(reader, types, WaitedFor.of(name))

    for name, answer in zip(names, concurrently(look, names), strict=True):
        if isinstance(answer, bool):
            read.existing[name] = answer
        elif answer is not None and answer not in read.gaps:
            read.gaps.append(answer)


def read_dependencies(reader: CollectionReader, types: ServedTypes, read: FleetRead, workload: Key, kind: str) -> None:
    """Add the metadata of the resources that follow a workload (``propagateDeps``), so that their names are known."""
    known = {(each.kind, each.namespace, each.name) for each in read.documents}

    def look(each: Dependency) -> Document | Gap | None:
        served = types.find(each.api_version, each.kind)
        if served is None:
            return None
        try:
            return reader.get(served, (each.namespace, each.name), metadata_only=True)
        except ApiError as error:
            if not error.forbidden:
                raise
            return forbidden(served, each.namespace, "get")

    wanted = [
        each
        for each in _needed(read, workload, kind)[:_MOST]
        if each.name and (each.kind, each.namespace, each.name) not in known
    ]
    for found in concurrently(look, wanted):
        if isinstance(found, Document):
            read.documents.append(found)
        elif found is not None and found not in read.gaps:
            read.gaps.append(found)


def _exists(reader: CollectionReader, types: ServedTypes, wanted: WaitedFor) -> bool | Gap | None:
    served = types.find(wanted.api_version, wanted.kind)
    if served is None:
        return None
    try:
        return reader.get(served, wanted.key, metadata_only=True) is not None
    except ApiError as error:
        if not error.forbidden:
            raise
        return forbidden(served, wanted.key[0], "get")


def _needed(read: FleetRead, workload: Key, kind: str) -> Sequence[Dependency]:
    """Return the dependencies of a workload: those on its binding, or else those of its template."""
    found: dict[tuple[str, str], Dependency] = {}
    for document in read.documents:
        needed: Sequence[Dependency] | None = None
        if group_of(document.api_version) == BINDING_GROUP:
            needed = _recorded(document, workload, kind)
        elif (document.kind, document.namespace, document.name) == (kind, *workload):
            needed = dependencies_of(document.raw)
        found |= {(each.kind, each.name): each for each in needed or ()}
    return list(found.values())


def _recorded(document: Document, workload: Key, kind: str) -> Sequence[Dependency] | None:
    try:
        binding = convert(Binding, document.raw)
    except FieldError:
        return None
    resource = binding.spec.resource
    same = (resource.kind, resource.namespace, resource.name) == (kind, *workload)
    return recorded_dependencies(binding.metadata.annotations) if same else None


def _policies(documents: Iterable[Document]) -> Iterable[Policy]:
    for document in documents:
        try:
            yield defaulted(convert(Policy, document.raw))
        except FieldError:
            continue
