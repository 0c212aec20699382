"""The bundle fields of webhook configurations: objects in, objects and patches out.

A patch addresses an entry of ``webhooks`` by its index and carries the ``resourceVersion`` that was read. The API
server refuses it with a conflict (409) if another client has written the object since.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final, NamedTuple

from berthmaster.kube.requests import Collection
from berthmaster.model.errors import InputError
from certs.bundle import EMPTY, Bundle

Json = dict[str, Any]


class ConfigurationKind(NamedTuple):
    api_version: str
    kind: str
    collection: Collection


def _kind(api_version: str, kind: str) -> ConfigurationKind:
    return ConfigurationKind(api_version, kind, Collection.of(api_version, f"{kind.lower()}s"))


MUTATING: Final = _kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
VALIDATING: Final = _kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
SCHEDULER_PLUGIN: Final = _kind("core.kubeadmiral.io/v1alpha1", "SchedulerPluginWebhookConfiguration")
KINDS: Final = (MUTATING, VALIDATING, SCHEDULER_PLUGIN)


class BundleField(NamedTuple):
    """A field that holds a bundle, the path of its parents, and the URL of its server (empty without one)."""

    parents: tuple[str | int, ...]
    field: str
    url: str


def kind_of(content: Mapping[str, Any]) -> ConfigurationKind | None:
    identity = content.get("apiVersion"), content.get("kind")
    return next((each for each in KINDS if (each.api_version, each.kind) == identity), None)


def bundle_fields(kind: ConfigurationKind, content: Mapping[str, Any]) -> list[BundleField]:
    """Return every bundle field; none for a plugin without TLS. Raises ``InputError`` for another structure."""
    try:
        return list(_plugin_field(content) if kind == SCHEDULER_PLUGIN else _webhook_fields(content))
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


def _webhook_fields(content: Mapping[str, Any]) -> Iterator[BundleField]:
    for index, webhook in enumerate(content.get("webhooks") or []):
        yield BundleField(("webhooks", index, "clientConfig"), "caBundle", _url(webhook["clientConfig"]))


def _plugin_field(content: Mapping[str, Any]) -> Iterator[BundleField]:
    url = str(content["spec"].get("urlPrefix") or "")
    if url.startswith("https:"):
        yield BundleField(("spec", "tlsConfig"), "caData", url)


def _url(client: Mapping[str, Any]) -> str:
    """Return the URL of a webhook. A Service gets the host name that its certificate must carry."""
    if url := client.get("url"):
        return str(url)
    service = client.get("service") or {}
    if not service:
        return ""
    host = f"{service['name']}.{service['namespace']}.svc"
    return f"https://{host}:{service.get('port') or 443}/{str(service.get('path') or '').lstrip('/')}"


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
