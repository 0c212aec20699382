"""All resource types of an API server, by aggregated discovery: Kubernetes 1.27 or newer."""

import threading
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.requests import APIRequest, Collection
from berthmaster.kube.responses import decode_response
from berthmaster.model.errors import ApiError
from berthmaster.model.kind_names import KindNames, resolve
from berthmaster.runtime.clock import Clock

_ACCEPT: Final = ",".join(
    [*(f"application/json;g=apidiscovery.k8s.io;v={each};as=APIGroupDiscoveryList" for each in ("v2", "v2beta1")),
     "application/json"]
)  # fmt: skip
CACHE_S: Final = 30.0
"""How long a response is cached. Karmada refreshes its cache as often."""
_NEEDED_VERBS: Final = frozenset({"get", "list", "watch", "patch"})


class ServedType(NamedTuple):
    """A resource type of one version."""

    api_version: str
    names: KindNames
    namespaced: bool
    verbs: frozenset[str]

    @property
    def kind(self) -> str:
        return self.names.kind

    @property
    def collection(self) -> Collection:
        return Collection.of(self.api_version, self.names.plural)

    def __str__(self) -> str:
        return f"{self.names.plural}.{self.names.group}" if self.names.group else self.names.plural


class ServedTypes:
    """The types that a server serves, the preferred group and version first.

    Attributes:
        unavailable: the group versions that the server names but cannot describe now, because an aggregated API
            server does not respond.
    """

    def __init__(self, types: Sequence[ServedType], unavailable: Sequence[str] = ()) -> None:
        self.unavailable = tuple(unavailable)
        self._types = {(each.api_version, each.kind): each for each in reversed(types)}
        self._in_order = tuple(types)

    def find(self, api_version: str, kind: str) -> ServedType | None:
        return self._types.get((api_version, kind))

    def resolve(self, text: str) -> ServedType | None:
        """Return the type that a name means: kind, plural or short name, optionally with ``.GROUP``."""
        named = resolve(text, [each.names for each in self._in_order])
        return next((each for each in self._in_order if each.names == named), None)


class _ResponseKind(msgspec.Struct, frozen=True):
    kind: str = ""


class _Resource(msgspec.Struct, frozen=True, rename="camel"):
    """``APIResourceDiscovery``."""

    resource: str
    response_kind: _ResponseKind | None = None
    scope: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()


class _Version(msgspec.Struct, frozen=True):
    version: str
    freshness: str = ""
    resources: tuple[_Resource, ...] = ()


class _GroupName(msgspec.Struct, frozen=True):
    name: str = ""


class _Group(msgspec.Struct, frozen=True):
    metadata: _GroupName = _GroupName()
    versions: tuple[_Version, ...] = ()


class _Groups(msgspec.Struct, frozen=True):
    """``APIGroupDiscoveryList``, the content of ``/api`` and ``/apis``."""

    items: tuple[_Group, ...]


class ListedResource(msgspec.Struct, frozen=True):
    """``meta/v1.APIResource``: a resource or subresource of a group version."""

    name: str


class APIResourceList(msgspec.Struct, frozen=True):
    """``meta/v1.APIResourceList``: the resources of a group version."""

    resources: tuple[ListedResource, ...] = ()


def discover_types(client: APIClient) -> ServedTypes:
    types: list[ServedType] = []
    unavailable: list[str] = []
    for path in ("/api", "/apis"):
        answer = ask(client, APIRequest(path, accept=_ACCEPT))
        what = f"the discovery of {path} by groups, which Kubernetes has since 1.27"
        for group in decode_response(_Groups, answer, what).items:
            name = group.metadata.name
            for version in group.versions:
                api_version = f"{name}/{version.version}" if name else version.version
                if version.freshness == "Stale":
                    unavailable.append(api_version)
                for each in version.resources:
                    if each.response_kind is not None:
                        names = KindNames(name, each.response_kind.kind, each.resource, each.short_names)
                        verbs = frozenset(each.verbs)
                        types.append(ServedType(api_version, names, each.scope == "Namespaced", verbs))
    return ServedTypes(types, unavailable)


class Discovery:
    """Looks up served kinds and caches the types of the server. Safe for several threads."""

    def __init__(self, client: APIClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._lock = threading.Lock()
        self._types = ServedTypes(())
        self._fetched_s = float("-inf")

    def find(self, api_version: str, kind: str) -> ServedType | None:
        """Find a kind. Return None if it is not served, or cannot be watched and patched.

        Raises:
            ApiError: the API server does not respond, or the aggregated one that serves this version.
        """
        with self._lock:
            now_s = self._clock.monotonic_s()
            if now_s - self._fetched_s >= CACHE_S:
                self._types, self._fetched_s = discover_types(self._client), now_s
            types = self._types
        if api_version in types.unavailable:
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "", f"the API server of {api_version} does not respond")
        found = types.find(api_version, kind)
        return found if found is not None and found.verbs >= _NEEDED_VERBS else None
