"""Requests to an API server as values. ``APIClient`` sends them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from berthmaster.model.decode import encode_json
from berthmaster.model.errors import InputError, shown
from berthmaster.model.meta import Key, is_valid_name

PAGE_SIZE: Final = 500
READ_TIMEOUT_S: Final = 30.0
JSON: Final = "application/json"
ONLY_METADATA: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
"""The ``Accept`` header that asks for the metadata of an object, or of the objects in watch events."""
ONLY_METADATA_LIST: Final = ONLY_METADATA.replace("PartialObjectMetadata", "PartialObjectMetadataList")
_MERGE_PATCH: Final = "application/merge-patch+json"
_JSON_PATCH: Final = "application/json-patch+json"
_APPLY: Final = "application/apply-patch+yaml"  # JSON is YAML
# Field validation makes the API server decode the object a second time, and the resulting warnings are not read.
_NO_FIELD_VALIDATION: Final = (("fieldValidation", "Ignore"),)
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
Query = tuple[tuple[str, str], ...]


def api_root(api_version: str) -> str:
    return f"/{'apis' if '/' in api_version else 'api'}/{api_version}"


class Collection(NamedTuple):
    """All objects of a kind in the whole cluster. ``path`` is the path on the API server, as in ``/api/v1/nodes``."""

    path: str
    plural: str

    @classmethod
    def of(cls, api_version: str, plural: str) -> "Collection":
        return cls(f"{api_root(api_version)}/{plural}", plural)

    def within(self, namespace: str) -> str:
        """Return the path in a namespace; an empty one is the whole cluster. Raises ``InputError`` for a bad name."""
        if not namespace:
            return self.path
        return f"{self.path.removesuffix(self.plural)}namespaces/{_segment(namespace)}/{self.plural}"

    def object(self, key: Key, subresource: str = "") -> str:
        """Return the path of an object or of a subresource. Raises ``InputError`` for a bad name."""
        path = f"{self.within(key[0])}/{_segment(key[1])}"
        return f"{path}/{subresource}" if subresource else path


RESOURCE_BINDINGS: Final = Collection.of("work.karmada.io/v1alpha2", "resourcebindings")
CLUSTER_RESOURCE_BINDINGS: Final = Collection.of("work.karmada.io/v1alpha2", "clusterresourcebindings")


def binding_collection(key: Key) -> Collection:
    return RESOURCE_BINDINGS if key[0] else CLUSTER_RESOURCE_BINDINGS


class APIRequest(NamedTuple):
    """One request to an API server, which may send nothing for ``read_timeout_s`` at most."""

    path: str
    query: Query = ()
    read_timeout_s: float = READ_TIMEOUT_S
    method: str = "GET"
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    headers: Query = ()

    @property
    def is_read(self) -> bool:
        return self.method == "GET"

    @property
    def verb(self) -> str:
        if self.method != "GET":
            return _VERBS[self.method]
        names = {name for name, _ in self.query}
        return "watch" if "watch" in names else "list" if "limit" in names else "get"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def page(
    collection: Collection,
    continue_token: str,
    read_timeout_s: float,
    *,
    namespace: str = "",
    labels: str = "",
    accept: str = JSON,
    limit: int = PAGE_SIZE,
) -> APIRequest:
    """List one page of a consistent list, as ``kube.listing.pages`` does.

    ``continue_token`` is the token of the page; empty for the first page.
    """
    optional = (("continue", continue_token), ("labelSelector", labels))
    query = (("limit", str(limit)), *(each for each in optional if each[1]))
    return APIRequest(collection.within(namespace), query, read_timeout_s, accept=accept)


def probe(collection: Collection, read_timeout_s: float) -> APIRequest:
    """Read the metadata of one object of a collection. The API server asks etcd, so the answer is current."""
    return APIRequest(collection.path, (("limit", "1"),), read_timeout_s, accept=ONLY_METADATA_LIST)


def watch(collection: Collection, resource_version: str, duration_s: int, read_timeout_s: float) -> APIRequest:
    """Watch all changes after a resource version, with bookmarks. The server ends the watch after ``duration_s``."""
    query = (
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("resourceVersion", resource_version),
        ("timeoutSeconds", str(duration_s)),
    )
    return APIRequest(collection.path, query, read_timeout_s)


def get(collection: Collection, key: Key) -> APIRequest:
    """Get the latest state of an object, not a state from the API server's watch cache."""
    return APIRequest(collection.object(key))


def create(collection: Collection, namespace: str, content: Mapping[str, Any]) -> APIRequest:
    return APIRequest(collection.within(namespace), method="POST", body=encode_json(content))


def replace(collection: Collection, key: Key, content: Mapping[str, Any], subresource: str = "") -> APIRequest:
    """Replace an object. Its ``resourceVersion`` guards against concurrent writes (409)."""
    return APIRequest(collection.object(key, subresource), method="PUT", body=encode_json(content))


def merge_patch(collection: Collection, key: Key, patch: Mapping[str, Any], subresource: str = "") -> APIRequest:
    """Change some fields of an object. A ``metadata.resourceVersion`` in the patch guards against concurrent writes."""
    return APIRequest(
        collection.object(key, subresource),
        _NO_FIELD_VALIDATION,
        method="PATCH",
        body=encode_json(patch),
        content_type=_MERGE_PATCH,
    )


def json_patch(
    collection: Collection, key: Key, operations: Sequence[Mapping[str, Any]], field_manager: str
) -> APIRequest:
    """Change an object by a JSON patch (RFC 6902). ``field_manager`` owns the written fields.

    An operation that replaces ``/metadata/resourceVersion`` guards against concurrent writes.
    """
    query = (("fieldManager", field_manager),)
    return APIRequest(
        collection.object(key), query, method="PATCH", body=encode_json(operations), content_type=_JSON_PATCH
    )


def apply(
    collection: Collection, key: Key, content: Mapping[str, Any], field_manager: str, *, force: bool = False
) -> APIRequest:
    """Apply the fields of ``field_manager`` on the server. ``force`` takes over fields of other managers."""
    query = (("fieldManager", field_manager), *((("force", "true"),) if force else ()))
    return APIRequest(collection.object(key), query, method="PATCH", body=encode_json(content), content_type=_APPLY)


def delete(collection: Collection, key: Key, *, uid: str = "", resource_version: str = "") -> APIRequest:
    """Delete an object. ``uid`` and ``resource_version`` are preconditions where given (else 409)."""
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    given = {name: value for name, value in preconditions.items() if value}
    body = {"apiVersion": "v1", "kind": "DeleteOptions", **({"preconditions": given} if given else {})}
    return APIRequest(collection.object(key), method="DELETE", body=encode_json(body))


def micro_time(moment: datetime) -> str:
    """Format a ``MicroTime``, the timestamps of leases and events: UTC, always with six digits of a second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _segment(name: str) -> str:
    """Return a name as a path segment. Names are user input: a name must never lead to another path."""
    if not is_valid_name(name):
        raise InputError(f"{shown(name)} is not a valid name of an object")
    return quote(name, safe=":")
