"""The bundle fields of webhook configurations: objects in, objects and patches out.

A patch addresses an entry of ``webhooks`` by its index and carries the ``resourceVersion`` that was read. The API
server refuses it with a conflict (409) if another client has written the object since.
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final, NamedTuple

from berthmaster.kube.requests import Collection
from berthmaster.model.errors import InputError
from certs.bundle import EMPTY, Bundle

_ADMISSION: Final = "admissionregistration.k8s.io/v1"
Json = dict[str, Any]


class BundleField(NamedTuple):
    """A field that holds a bundle, the path of its parents, and the URL of its server (empty without one)."""

    parents: tuple[str | int, ...]
    field: str
    url: str


class ConfigurationKind(NamedTuple):
    """A kind whose objects hold bundles.

    Attributes:
        fields: yields the fields of an object that hold a bundle. Of an object with another structure it may raise
            AttributeError, KeyError or TypeError.
        rank: kinds with a higher rank are registered later.
        named_by: a kind whose objects name objects of this kind, so that they are registered after them; or empty.
    """

    api_version: str
    kind: str
    fields: Callable[[Mapping[str, Any]], Iterator[BundleField]]
    rank: int
    named_by: str = ""

    @property
    def collection(self) -> Collection:
        return Collection.of(self.api_version, f"{self.kind.lower()}s")


def _url(client: Mapping[str, Any]) -> str:
    """Return the URL of a webhook. A Service gets the host name that its certificate must carry."""
    if url := client.get("url"):
        return str(url)
    service = client.get("service") or {}
    if not service:
        return ""
    host = f"{service['name']}.{service['namespace']}.svc"
    return f"https://{host}:{service.get('port') or 443}/{str(service.get('path') or '').lstrip('/')}"


def _webhook_fields(content: Mapping[str, Any]) -> Iterator[BundleField]:
    for index, webhook in enumerate(content.get("webhooks") or []):
        yield BundleField(("webhooks", index, "clientConfig"), "caBundle", _url(webhook["clientConfig"]))


MUTATING: Final = ConfigurationKind(_ADMISSION, "MutatingWebhookConfiguration", _webhook_fields, 4)
VALIDATING: Final = ConfigurationKind(_ADMISSION, "ValidatingWebhookConfiguration", _webhook_fields, 4)


def kind_of(content: Mapping[str, Any], kinds: Iterable[ConfigurationKind]) -> ConfigurationKind | None:
    identity = content.get("apiVersion"), content.get("kind")
    return next((each for each in kinds if (each.api_version, each.kind) == identity), None)


def bundle_fields(kind: ConfigurationKind, content: Mapping[str, Any]) -> list[BundleField]:
    """Return every bundle field; none for a plugin without TLS. Raises ``InputError`` for another structure."""
    try:
        return list(kind.fields(content))
    except (AttributeError, TypeError, KeyError):
        name = (content.get("metadata") or {}).get("name")
        raise InputError(f"{kind.kind} {name}: its entries do not have the structure of this kind") from None


def bundles(kind: ConfigurationKind, content: Mapping[str, Any]) -> list[Bundle]:
    """Return the bundle of each field as clients read it: unreadable certificates are skipped."""
    return [_bundle(_at(content, each.parents).get(each.field)) for each in bundle_fields(kind, content)]


def injected(kind: ConfigurationKind, content: Mapping[str, Any], bundle: Bundle) -> Json:
    result = deepcopy(dict(content))
    for each in bundle_fields(kind, content):
        node: Any = result
        for step in each.parents:
            if isinstance(node, dict):
                node[step] = node.get(step) or {}
            node = node[step]
        node[each.field] = encoded(bundle)
    return result


def patch(kind: ConfigurationKind, content: Mapping[str, Any], bundle: Bundle) -> list[Json]:
    """Return the JSON patch of this ``resourceVersion`` that writes the bundle to fields with another value, if any."""
    operations: list[Json] = []
    wanted = encoded(bundle)
    for each in bundle_fields(kind, content):
        parent = _at(content, each.parents)
        if parent.get(each.field) == wanted:
            continue
        if not parent:
            operations.append({"op": "add", "path": _pointer(each.parents), "value": {each.field: wanted}})
        else:
            operations.append({"op": "add", "path": _pointer((*each.parents, each.field)), "value": wanted})
    if not operations:
        return []
    version = content["metadata"]["resourceVersion"]
    return [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}, *operations]


def encoded(bundle: Bundle) -> str:
    return base64.b64encode(bundle.pem).decode()


def _at(content: Mapping[str, Any], parents: tuple[str | int, ...]) -> Mapping[str, Any]:
    node: Any = content
    for step in parents:
        node = node.get(step) if isinstance(node, dict) else node[step]
    return node or {}


def _bundle(text: object) -> Bundle:
    try:
        return Bundle.parse(base64.b64decode(str(text or "")))
    except (binascii.Error, ValueError):
        return EMPTY


def _pointer(path: tuple[str | int, ...]) -> str:
    """Return a JSON pointer. No step of these paths needs escaping."""
    return "".join(f"/{step}" for step in path)
