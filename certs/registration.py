"""Makes objects known to an API server, webhooks last, and takes them away again, webhooks first.

An API server that cannot reach a webhook whose ``failurePolicy`` is ``Fail`` refuses what it is asked about. So nothing
here stores a webhook without a bundle, nor before its server answers, and nothing that a webhook needs goes before it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, Literal, NamedTuple

from berthmaster.kube import requests
from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.discovery import Discovery, ServedKind
from berthmaster.kube.requests import Key
from berthmaster.manifests.document import Document
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, InputError, ServiceError
from berthmaster.runtime.clock import Clock
from certs.bundle import Bundle
from certs.injection import MUTATING, SCHEDULER_PLUGIN, VALIDATING, injected, kind_of, places
from certs.reachability import Endpoint, endpoint_of

REGISTERED_BY: Final = "berthmaster.io/registered-by"
"""The label of what was made here; its value says by whom, so that two installations leave each other alone."""
MANAGER: Final = "berthmaster-register"
_KEPT: Final = frozenset({"Namespace", "CustomResourceDefinition"})
"""Kinds that are never deleted: everything that others have put into them would go too."""
_RANKS: Final = {
    "Namespace": 0, "CustomResourceDefinition": 0,
    SCHEDULER_PLUGIN.kind: 2, "SchedulingProfile": 3,  # a profile that names an unknown plugin stops scheduling
    MUTATING.kind: 4, VALIDATING.kind: 4,
}  # fmt: skip
_OTHER_RANK: Final = 1
_MAX_CONFLICTS: Final = 5
_SERVER_FIELDS: Final = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")
_DEFAULT_NAMESPACE: Final = "default"

Outcome = Literal["applied", "applied, and not ours to remove", "removed", "gone already", "kept", "not ours"]


class Result(NamedTuple):
    """What became of an object.

    Attributes:
        kind, name: which.
        outcome: what became of it.
    """

    kind: str
    name: str
    outcome: Outcome


def endpoints(documents: Iterable[Document]) -> Iterator[Endpoint]:
    """Where the servers are that objects want to be called.

    Raises:
        ManifestError: an object does not say, or in a way that an API server does not accept.
    """
    for document in documents:
        kind = kind_of(document.raw)
        if kind is None:
            continue
        try:
            yield from [endpoint_of(place.url) for place in places(kind, document.raw)]
        except InputError as error:
            raise InputError(f"{document.place}: {error}") from None


class Registrar:
    """Applies and removes objects of one API server."""

    def __init__(self, client: APIClient, clock: Clock, registered_by: str) -> None:
        """A registrar.

        Args:
            client: to the API server.
            clock: tells the time.
            registered_by: whose objects they are, a label's value.
        """
        self._client = client
        self._discovery = Discovery(client, clock)
        self._registered_by = registered_by

    def apply(self, documents: Sequence[Document], bundle: Callable[[], Bundle]) -> Iterator[Result]:
        """Let every object be as its document says, configurations with the bundle in them.

        Args:
            documents: in any order.
            bundle: asked after an object has been read, so that an older bundle never takes a newer one's place.

        Raises:
            ApiError: the API server refuses.
            ServiceError: it does not know a kind, or there is no bundle.
            InputError: an object is somebody else's.
        """
        for document in _in_order(documents):
            resource = self._discovery.find(document.api_version, document.kind)
            if resource is None:
                raise ServiceError(f"{document.place}: the API server has no {document.api_version} {document.kind}")
            yield self._applied(document, resource, bundle)

    def remove(self, documents: Sequence[Document]) -> Iterator[Result]:
        """Delete what ``apply`` has made, in the opposite order.

        Raises:
            ApiError: the API server refuses.
        """
        for document in reversed(_in_order(documents)):
            yield Result(document.kind, document.name, self._removed(document))

    def _applied(self, document: Document, resource: ServedKind, bundle: Callable[[], Bundle]) -> Result:
        key = _key(document, resource)
        for tried in range(1, _MAX_CONFLICTS + 1):
            present = self._read(resource, key)
            owned = self._owned(document, present)
            content = _content(document, present, self._registered_by if owned else "")
            request = requests.apply(resource.collection, key, _with_bundle(content, bundle), MANAGER, force=True)
            try:
                ask(self._client, request)
            except ApiError as error:
                if error.conflict and tried < _MAX_CONFLICTS:
                    continue
                raise
            break
        return Result(document.kind, document.name, "applied" if owned else "applied, and not ours to remove")

    def _owned(self, document: Document, present: Mapping[str, Any] | None) -> bool:
        """Whether an object goes when it is removed: what was made here, and configurations in any case.

        A configuration that is left behind would be called for ever.
        """
        owner = _owner(present)
        if owner and owner != self._registered_by:
            raise InputError(f"{document.kind} {document.name} was registered by {owner}, not {self._registered_by}")
        return present is None or bool(owner) or kind_of(document.raw) is not None

    def _removed(self, document: Document) -> Outcome:
        resource = self._discovery.find(document.api_version, document.kind)
        if resource is None:
            return "gone already"
        key = _key(document, resource)
        present = self._read(resource, key)
        if present is None:
            return "gone already"
        if _owner(present) != self._registered_by:
            return "not ours"
        if document.kind in _KEPT:
            return "kept"
        try:
            ask(self._client, requests.delete(resource.collection, key, uid=present["metadata"]["uid"]))
        except ApiError as error:
            if not error.not_found:
                raise
            return "gone already"
        return "removed"

    def _read(self, resource: ServedKind, key: Key) -> dict[str, Any] | None:
        try:
            return decode_json(dict[str, Any], ask(self._client, requests.get(resource.collection, key)))
        except ApiError as error:
            if error.not_found:
                return None
            raise


def _in_order(documents: Sequence[Document]) -> list[Document]:
    return sorted(documents, key=lambda each: _RANKS.get(each.kind, _OTHER_RANK))


def _content(document: Document, present: Mapping[str, Any] | None, owner: str) -> dict[str, Any]:
    """What is applied: the document, whose it is, and the version that was read if there is one."""
    content = deepcopy(document.raw)
    metadata = {name: value for name, value in content["metadata"].items() if name not in _SERVER_FIELDS}
    if owner:
        metadata["labels"] = {**(metadata.get("labels") or {}), REGISTERED_BY: owner}
    if present is not None:
        metadata["resourceVersion"] = present["metadata"]["resourceVersion"]
    return {**content, "metadata": metadata}


def _with_bundle(content: dict[str, Any], bundle: Callable[[], Bundle]) -> dict[str, Any]:
    kind = kind_of(content)
    if kind is None or not places(kind, content):
        return content
    trusted = bundle()
    if not len(trusted):
        raise ServiceError(f"{kind.kind} {content['metadata']['name']}: there is no bundle for it yet")
    return injected(kind, content, trusted)


def _key(document: Document, resource: ServedKind) -> Key:
    return (document.namespace or _DEFAULT_NAMESPACE if resource.namespaced else ""), document.name


def _owner(present: Mapping[str, Any] | None) -> str:
    labels = ((present or {}).get("metadata") or {}).get("labels") or {}
    return str(labels.get(REGISTERED_BY, ""))
