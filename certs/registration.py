"""Register objects with an API server, webhooks last, and remove them, webhooks first.

An API server rejects requests whose webhook with ``failurePolicy: Fail`` is unreachable. Therefore a webhook
configuration is never stored without a bundle or before its server answers, and nothing that a webhook needs is removed
before the webhook.
"""

import http.client
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from copy import deepcopy
from http import HTTPStatus
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from berthmaster.kube import requests
from berthmaster.kube.client import APIClient, ask, ask_if_found
from berthmaster.kube.served_types import Discovery, ServedType
from berthmaster.manifests.document import Document
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, InputError, ServiceError
from berthmaster.model.meta import Key
from berthmaster.runtime.clock import Clock
from certs.bundle import Bundle
from certs.bundle_fields import ConfigurationKind, bundle_fields, injected, kind_of
from certs.ownership import REGISTERED_BY, owner_of

MANAGER: Final = "berthmaster-register"
_NEVER_DELETED: Final = frozenset({"Namespace", "CustomResourceDefinition"})
"""Kinds whose deletion would also delete the objects of others. They are registered first."""
_OTHER_RANK: Final = 1
_MAX_CONFLICTS: Final = 5
_SERVER_FIELDS: Final = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")
_DEFAULT_NAMESPACE: Final = "default"
_ATTEMPT_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.5
_HTTPS_PORT: Final = 443

RegistrationOutcome = Literal[
    "applied", "applied, and not ours to remove", "removed", "gone already", "kept", "not ours"
]


class RegistrationResult(NamedTuple):
    kind: str
    name: str
    outcome: RegistrationOutcome


class Endpoint(NamedTuple):
    """The address of a server with TLS. The path has a leading slash."""

    host: str
    port: int
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}{self.path}"


def endpoint_of(url: str) -> Endpoint:
    """Parse an ``https`` URL. Raises ``InputError`` if the text is not such a URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or _HTTPS_PORT
    except ValueError as error:
        raise InputError(f"invalid URL {url!r}: {error}") from None
    if parts.scheme != "https" or not parts.hostname:
        raise InputError(f"invalid URL {url!r}: it must be https://HOST[:PORT][/PATH]")
    return Endpoint(parts.hostname, port, parts.path or "/")


def endpoints(documents: Iterable[Document], kinds: Sequence[ConfigurationKind]) -> Iterator[Endpoint]:
    """Yield the endpoints that configurations name. Raises ``InputError`` for a URL that is not accepted."""
    for document in documents:
        kind = kind_of(document.raw, kinds)
        if kind is None:
            continue
        try:
            yield from [endpoint_of(each.url) for each in bundle_fields(kind, document.raw)]
        except InputError as error:
            raise InputError(f"{document.place}: {error}") from None


def wait_until_reachable(
    endpoints: Iterable[Endpoint], bundle: Callable[[], Bundle], clock: Clock, timeout_s: float
) -> None:
    """Wait until every server answers over TLS, for ``timeout_s`` in all. Raises ``ServiceError``."""
    deadline_s = clock.monotonic_s() + timeout_s
    for endpoint in {(each.host, each.port): each for each in endpoints}.values():
        while problem := problem_of(endpoint, bundle()):
            if clock.monotonic_s() >= deadline_s:
                raise ServiceError(f"{endpoint} has not answered within {timeout_s:g} s: {problem}")
            time.sleep(_POLL_S)


def problem_of(endpoint: Endpoint, bundle: Bundle) -> str:
    """Return why a client that trusts a bundle gets no answer. Return an empty string for any status below 500."""
    if not bundle:
        return "there is no authority to trust yet"
    context = ssl.create_default_context(cadata=bundle.pem.decode())
    try:
        with closing(
            http.client.HTTPSConnection(endpoint.host, endpoint.port, timeout=_ATTEMPT_TIMEOUT_S, context=context)
        ) as connection:
            connection.connect()
            return _problem_with_answer(connection, endpoint.path)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return str(error) or type(error).__name__


def _problem_with_answer(connection: http.client.HTTPSConnection, path: str) -> str:
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except http.client.RemoteDisconnected:
        raise
    except (ssl.SSLError, ConnectionResetError, BrokenPipeError):
        # The client has accepted the certificate. The server requires a client certificate and ends the session. It
        # had not read the request, so that a reset may come in the place of its alert.
        return ""
    return f"it answers with {status}" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else ""


class Registrar:
    """Applies and removes objects of one API server.

    Args:
        registered_by: the installation, as a label value.
        kinds: the kinds that hold bundles.
    """

    def __init__(self, client: APIClient, clock: Clock, registered_by: str, kinds: Sequence[ConfigurationKind]) -> None:
        self._client = client
        self._discovery = Discovery(client, clock)
        self._registered_by = registered_by
        self._kinds = kinds

    def check(self, documents: Iterable[Document]) -> None:
        """Raise ``InputError`` if another installation registered one of the objects."""
        for document in documents:
            resource = self._discovery.find(document.api_version, document.kind)
            if resource is not None:
                self._owned(document, self._read(resource, _key(document, resource)))

    def apply(self, documents: Sequence[Document], bundle: Callable[[], Bundle]) -> Iterator[RegistrationResult]:
        """Apply every document. Configurations get the bundle, which is asked for after the object was read."""
        for document in self._in_order(documents):
            resource = self._discovery.find(document.api_version, document.kind)
            if resource is None:
                raise ServiceError(f"{document.place}: the API server has no {document.api_version} {document.kind}")
            yield self._applied(document, resource, bundle)

    def remove(self, documents: Sequence[Document]) -> Iterator[RegistrationResult]:
        for document in reversed(self._in_order(documents)):
            yield RegistrationResult(document.kind, document.name, self._removed(document))

    def _applied(self, document: Document, resource: ServedType, bundle: Callable[[], Bundle]) -> RegistrationResult:
        key = _key(document, resource)
        for attempt in range(1, _MAX_CONFLICTS + 1):
            present = self._read(resource, key)
            owned = self._owned(document, present)
            content = _content(document, present, self._registered_by if owned else "")
            request = requests.apply(resource.collection, key, self._with_bundle(content, bundle), MANAGER, force=True)
            try:
                ask(self._client, request)
            except ApiError as error:
                if error.conflict and attempt < _MAX_CONFLICTS:
                    continue
                raise
            break
        outcome: RegistrationOutcome = "applied" if owned else "applied, and not ours to remove"
        return RegistrationResult(document.kind, document.name, outcome)

    def _owned(self, document: Document, present: Mapping[str, Any] | None) -> bool:
        """Return whether ``remove`` deletes the object: a new object, one of ours, and every configuration.

        The API server would call a configuration that is left behind forever.
        """
        owner = owner_of(present)
        if owner and owner != self._registered_by:
            raise InputError(f"{document.kind} {document.name} was registered by {owner}, not {self._registered_by}")
        return present is None or bool(owner) or kind_of(document.raw, self._kinds) is not None

    def _removed(self, document: Document) -> RegistrationOutcome:
        resource = self._discovery.find(document.api_version, document.kind)
        if resource is None:
            return "gone already"
        key = _key(document, resource)
        present = self._read(resource, key)
        if present is None:
            return "gone already"
        if owner_of(present) != self._registered_by:
            return "not ours"
        if document.kind in _NEVER_DELETED:
            return "kept"
        request = requests.delete(resource.collection, key, uid=present["metadata"]["uid"])
        return "removed" if ask_if_found(self._client, request) is not None else "gone already"

    def _in_order(self, documents: Sequence[Document]) -> list[Document]:
        ranks = dict.fromkeys(_NEVER_DELETED, 0)
        for each in self._kinds:
            ranks |= {each.kind: each.rank, **({each.named_by: each.rank + 1} if each.named_by else {})}
        return sorted(documents, key=lambda each: ranks.get(each.kind, _OTHER_RANK))

    def _with_bundle(self, content: dict[str, Any], bundle: Callable[[], Bundle]) -> dict[str, Any]:
        kind = kind_of(content, self._kinds)
        if kind is None or not bundle_fields(kind, content):
            return content
        trusted = bundle()
        if not trusted:
            raise ServiceError(f"{kind.kind} {content['metadata']['name']}: there is no bundle for it yet")
        return injected(kind, content, trusted)

    def _read(self, resource: ServedType, key: Key) -> dict[str, Any] | None:
        content = ask_if_found(self._client, requests.get(resource.collection, key))
        return decode_json(dict[str, Any], content) if content is not None else None


def _content(document: Document, present: Mapping[str, Any] | None, owner: str) -> dict[str, Any]:
    """Return the content to apply: the document, the owner label, and the version that was read, if any."""
    content = deepcopy(document.raw)
    metadata = {name: value for name, value in content["metadata"].items() if name not in _SERVER_FIELDS}
    if owner:
        metadata["labels"] = {**(metadata.get("labels") or {}), REGISTERED_BY: owner}
    if present is not None:
        metadata["resourceVersion"] = present["metadata"]["resourceVersion"]
    return {**content, "metadata": metadata}


def _key(document: Document, resource: ServedType) -> Key:
    return (document.namespace or _DEFAULT_NAMESPACE if resource.namespaced else ""), document.name
