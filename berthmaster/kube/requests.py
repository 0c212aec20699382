"""Requests to an API server, prepared as values; whether one is sent, and over what, is somebody else's business."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from berthmaster.model.decode import encode_json
from berthmaster.model.errors import InputError, shown
from berthmaster.model.meta import is_valid_name

PAGE_SIZE: Final = 500
ANSWER_LIMIT_S: Final = 30.0
"""How long the API server may think about one object."""

_JSON: Final = "application/json"
ONLY_METADATA: Final = f"{_JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{_JSON}"
"""What to accept where only the metadata of the answer is looked at."""
ONLY_METADATA_OF_MANY: Final = ONLY_METADATA.replace("PartialObjectMetadata", "PartialObjectMetadataList")
"""The same of a list; the events of a watch are single objects."""
_MERGE_PATCH: Final = "application/merge-patch+json"
_JSON_PATCH: Final = "application/json-patch+json"
_APPLY: Final = "application/apply-patch+yaml"  # JSON is YAML
# Looking for unknown fields makes the API server read the whole object a second time, and nobody reads the warnings.
_UNCHECKED: Final = (("fieldValidation", "Ignore"),)
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
Query = tuple[tuple[str, str], ...]
Key = tuple[str, str]
"""Namespace, empty for cluster-scoped objects, and name."""


class Collection(NamedTuple):
    """All objects of a kind, in the whole cluster.

    Attributes:
        path: where the API server serves them, as in ``/api/v1/nodes``.
        what: how messages call them: their plural name.
    """

    path: str
    what: str

    @classmethod
    def of(cls, api_version: str, plural: str) -> "Collection":
        """The collection of a kind by its apiVersion and plural name."""
        root = "apis" if "/" in api_version else "api"
        return cls(f"/{root}/{api_version}/{plural}", plural)

    def within(self, namespace: str) -> str:
        """The path of the objects of one namespace; of cluster-scoped ones where it is empty.

        Raises:
            InputError: nothing can be called so.
        """
        if not namespace:
            return self.path
        return f"{self.path.removesuffix(self.what)}namespaces/{_segment(namespace)}/{self.what}"

    def object(self, key: Key, subresource: str = "") -> str:
        """The path of one object, or of a subresource of it.

        Raises:
            InputError: nothing can be called so.
        """
        path = f"{self.within(key[0])}/{_segment(key[1])}"
        return f"{path}/{subresource}" if subresource else path


class APIRequest(NamedTuple):
    """One request.

    Attributes:
        path: with a leading slash.
        query: parameters in their order.
        silence_s: how long the server may say nothing before it is given up.
        method: the HTTP method.
        body: what is sent along; empty for nothing.
        content_type: of the body.
        accept: in which form the answer may come.
        headers: further ones, such as those by which a request is made in the name of somebody else.
    """

    path: str
    query: Query = ()
    silence_s: float = ANSWER_LIMIT_S
    method: str = "GET"
    body: bytes = b""
    content_type: str = _JSON
    accept: str = _JSON
    headers: Query = ()

    @property
    def reads(self) -> bool:
        """Whether it changes nothing."""
        return self.method == "GET"

    @property
    def of_many(self) -> bool:
        """Whether it lists or watches."""
        return self.verb in {"list", "watch"}

    @property
    def verb(self) -> str:
        """What RBAC and metrics call it."""
        if self.method != "GET":
            return _VERBS[self.method]
        names = {name for name, _ in self.query}
        return "watch" if "watch" in names else "list" if "limit" in names else "get"


def page(collection: Collection, token: str, silence_s: float) -> APIRequest:
    """A page of a consistent list; an empty token asks for the first."""
    query = (("limit", str(PAGE_SIZE)), *((("continue", token),) if token else ()))
    return APIRequest(collection.path, query, silence_s)


def watch(collection: Collection, resource_version: str, duration_s: int, silence_s: float) -> APIRequest:
    """All changes after a resource version, with bookmarks; the server ends the answer after ``duration_s``."""
    query = (
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("resourceVersion", resource_version),
        ("timeoutSeconds", str(duration_s)),
    )
    return APIRequest(collection.path, query, silence_s)


def get(collection: Collection, key: Key) -> APIRequest:
    """One object as it is now: not from a cache of the API server's."""
    return APIRequest(collection.object(key))


def create(collection: Collection, namespace: str, content: Mapping[str, Any]) -> APIRequest:
    """A new object."""
    return APIRequest(collection.within(namespace), method="POST", body=encode_json(content))


def replace(collection: Collection, key: Key, content: Mapping[str, Any], subresource: str = "") -> APIRequest:
    """The whole object; the ``resourceVersion`` in it guards what others wrote meanwhile."""
    return APIRequest(collection.object(key, subresource), method="PUT", body=encode_json(content))


def merge_patch(collection: Collection, key: Key, patch: Mapping[str, Any], subresource: str = "") -> APIRequest:
    """Some fields of an object; a ``metadata.resourceVersion`` in the patch guards what others wrote meanwhile."""
    return APIRequest(
        collection.object(key, subresource),
        _UNCHECKED,
        method="PATCH",
        body=encode_json(patch),
        content_type=_MERGE_PATCH,
    )


def json_patch(collection: Collection, key: Key, operations: Sequence[Mapping[str, Any]], manager: str) -> APIRequest:
    """Values at places in an object (RFC 6902); what is written belongs to ``manager``.

    An operation that replaces ``/metadata/resourceVersion`` guards what others wrote meanwhile.
    """
    query = (("fieldManager", manager),)
    return APIRequest(
        collection.object(key), query, method="PATCH", body=encode_json(operations), content_type=_JSON_PATCH
    )


def apply(
    collection: Collection, key: Key, content: Mapping[str, Any], manager: str, *, force: bool = False
) -> APIRequest:
    """The fields that ``manager`` wants an object to have, by server-side apply; others' fields stay.

    Args:
        collection: of which kind it is.
        key: which object; it is made if there is none.
        content: apiVersion, kind and the fields.
        manager: who the fields belong to.
        force: take over fields that belong to somebody else, instead of a conflict (409).
    """
    query = (("fieldManager", manager), *((("force", "true"),) if force else ()))
    return APIRequest(collection.object(key), query, method="PATCH", body=encode_json(content), content_type=_APPLY)


def delete(collection: Collection, key: Key, *, uid: str = "", resource_version: str = "") -> APIRequest:
    """The end of an object; only if it is still that one, in that version, where they are given (else 409)."""
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    given = {name: value for name, value in preconditions.items() if value}
    body = {"apiVersion": "v1", "kind": "DeleteOptions", **({"preconditions": given} if given else {})}
    return APIRequest(collection.object(key), method="DELETE", body=encode_json(body))


def _segment(name: str) -> str:
    """A name as a part of a path. Names come from what users wrote: none of them may lead elsewhere."""
    if not is_valid_name(name):
        raise InputError(f"{shown(name)} cannot be the name of an object")
    return quote(name, safe=":")


def micro_time(moment: datetime) -> str:
    """A moment as the API server wants it: UTC, with six digits of a second always."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
