"""Where configurations keep a bundle, and how exactly that field is changed. Pure: objects in, objects and patches out.

An entry of ``webhooks`` is found by its place and guarded by the object's version: the patch is refused (409) if
anybody has written the object since it was read.
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
    """A kind of configuration that has a bundle.

    Attributes:
        api_version, kind: what objects of it say they are.
        collection: where the API server serves them.
    """

    api_version: str
    kind: str
    collection: Collection


def _kind(api_version: str, kind: str) -> ConfigurationKind:
    return ConfigurationKind(api_version, kind, Collection.of(api_version, f"{kind.lower()}s"))


MUTATING: Final = _kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
VALIDATING: Final = _kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
SCHEDULER_PLUGIN: Final = _kind("core.kubeadmiral.io/v1alpha1", "SchedulerPluginWebhookConfiguration")
KINDS: Final = (MUTATING, VALIDATING, SCHEDULER_PLUGIN)


class Place(NamedTuple):
    """A field for a bundle.

    Attributes:
        parents: the path of the object that holds it, from the root.
        field: its name.
        url: whom it is for; empty if the entry does not say.
    """

    parents: tuple[str | int, ...]
    field: str
    url: str


def kind_of(content: Mapping[str, Any]) -> ConfigurationKind | None:
    """Which kind of configuration an object is; None for all others."""
    told = content.get("apiVersion"), content.get("kind")
    return next((each for each in KINDS if (each.api_version, each.kind) == told), None)


def places(kind: ConfigurationKind, content: Mapping[str, Any]) -> list[Place]:
    """Every field for a bundle in a configuration; none of a plugin that is called without TLS.

    Raises:
        InputError: the object is not what its kind says.
    """
    try:
        return list(_plugin_place(content) if kind == SCHEDULER_PLUGIN else _webhook_places(content))
    except (AttributeError, TypeError, KeyError):
        name = (content.get("metadata") or {}).get("name")
        raise InputError(f"{kind.kind} {name}: its entries are not readable as its kind describes them") from None


def bundles(kind: ConfigurationKind, content: Mapping[str, Any]) -> list[Bundle]:
    """The bundle in each place as clients read it, which pass over what is no certificate."""
    return [_bundle(_at(content, place.parents).get(place.field)) for place in places(kind, content)]


def injected(kind: ConfigurationKind, content: Mapping[str, Any], bundle: Bundle) -> Json:
    """A configuration with the bundle in every place."""
    result = deepcopy(dict(content))
    for place in places(kind, content):
        node: Any = result
        for step in place.parents:
            if isinstance(node, dict):
                node[step] = node.get(step) or {}
            node = node[step]
        node[place.field] = encoded(bundle)
    return result


def patch(kind: ConfigurationKind, content: Mapping[str, Any], bundle: Bundle) -> list[Json]:
    """The JSON patch that puts the bundle into every place that has another; empty if all is right.

    It says which version it is for: another one is refused as a conflict.
    """
    operations: list[Json] = []
    wanted = encoded(bundle)
    for place in places(kind, content):
        parent = _at(content, place.parents)
        if parent.get(place.field) == wanted:
            continue
        if not parent:
            operations.append({"op": "add", "path": _pointer(place.parents), "value": {place.field: wanted}})
        else:
            operations.append({"op": "add", "path": _pointer((*place.parents, place.field)), "value": wanted})
    if not operations:
        return []
    version = content["metadata"]["resourceVersion"]
    return [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}, *operations]


def encoded(bundle: Bundle) -> str:
    """A bundle as these fields have it: PEM in base64."""
    return base64.b64encode(bundle.pem).decode()


def _webhook_places(content: Mapping[str, Any]) -> Iterator[Place]:
    for index, webhook in enumerate(content.get("webhooks") or []):
        yield Place(("webhooks", index, "clientConfig"), "caBundle", _url(webhook["clientConfig"]))


def _plugin_place(content: Mapping[str, Any]) -> Iterator[Place]:
    url = str(content["spec"].get("urlPrefix") or "")
    if url.startswith("https:"):
        yield Place(("spec", "tlsConfig"), "caData", url)


def _url(client: Mapping[str, Any]) -> str:
    """Where a webhook is called; a Service by the name that its certificate has to carry."""
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
    """A JSON pointer; no step of ours holds what would have to be escaped."""
    return "".join(f"/{step}" for step in path)
