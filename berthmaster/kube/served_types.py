"""All resource types of an API server: aggregated discovery in two requests, or one request for each group version.

``discovery`` looks up single group versions and is enough for controllers. Commands need all names, because people
write short names and plurals.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from berthmaster.kube.client import APIClient, ask, ask_if_found
from berthmaster.kube.discovery import is_api_version
from berthmaster.kube.requests import APIRequest, Collection, api_root
from berthmaster.kube.responses import decode_response
from berthmaster.model.errors import ApiError
from berthmaster.model.kinds import KindNames, resolve

_AGGREGATED: Final = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in ("v2", "v2beta1")
)
_ACCEPT: Final = f"{_AGGREGATED},application/json"
_MAX_GROUP_VERSIONS: Final = 512


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


class _GroupVersion(msgspec.Struct, frozen=True, rename="camel"):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Resource(msgspec.Struct, frozen=True, rename="camel"):
    """``APIResourceDiscovery``."""

    resource: str
    response_kind: _GroupVersion | None = None
    scope: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    version: str
    freshness: str = ""
    resources: tuple[_Resource, ...] = ()


class _GroupName(msgspec.Struct, frozen=True):
    name: str = ""


class _Group(msgspec.Struct, frozen=True):
    metadata: _GroupName = _GroupName()
    versions: tuple[_Version, ...] = ()


class _GroupVersionName(msgspec.Struct, frozen=True, rename="camel"):
    group_version: str


class _ListedGroup(msgspec.Struct, frozen=True):
    name: str
    versions: tuple[_GroupVersionName, ...] = ()


class _Root(msgspec.Struct, frozen=True):
    """``/api`` and ``/apis``: aggregated (``items``), or only names (``versions`` of ``/api``, ``groups``)."""

    items: tuple[_Group, ...] | None = None
    versions: tuple[str, ...] = ()
    groups: tuple[_ListedGroup, ...] = ()


class _ListedResource(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    kind: str = ""
    namespaced: bool = False
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()


class _ResourceList(msgspec.Struct, frozen=True):
    resources: tuple[_ListedResource, ...] = ()


def discover_types(client: APIClient) -> ServedTypes:
    """Ask an API server for all its types."""
    types: list[ServedType] = []
    unavailable: list[str] = []
    for path in ("/api", "/apis"):
        root = decode_response(_Root, ask(client, APIRequest(path, accept=_ACCEPT)), f"the discovery of {path}")
        if root.items is not None:
            types += _aggregated(root.items)
            unavailable += _stale(root.items)
            continue
        names = [*root.versions, *(each.group_version for group in root.groups for each in group.versions)]
        if len(names) > _MAX_GROUP_VERSIONS:
            raise ApiError(0, "", f"the server has more than {_MAX_GROUP_VERSIONS} group versions")
        for api_version in filter(is_api_version, names):
            try:
                types += _listed(client, api_version)
            except ApiError as error:
                if not error.unavailable:
                    raise
                unavailable.append(api_version)
    return ServedTypes(types, unavailable)


def _aggregated(groups: Iterable[_Group]) -> Iterable[ServedType]:
    for group in groups:
        for version in group.versions:
            for each in version.resources:
                if each.response_kind is not None:
                    names = KindNames(group.metadata.name, each.response_kind.kind, each.resource, each.short_names)
                    api_version = _api_version(group.metadata.name, version.version)
                    yield ServedType(api_version, names, each.scope == "Namespaced", frozenset(each.verbs))


def _stale(groups: Iterable[_Group]) -> list[str]:
    return [
        _api_version(group.metadata.name, version.version)
        for group in groups
        for version in group.versions
        if version.freshness == "Stale"
    ]


def _api_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


def _listed(client: APIClient, api_version: str) -> list[ServedType]:
    body = ask_if_found(client, APIRequest(api_root(api_version)))
    found: Any = decode_response(_ResourceList, body or b"{}", f"the resources of {api_version}")
    group = api_version.rpartition("/")[0]
    return [
        ServedType(
            api_version,
            KindNames(group, each.kind, each.name, each.short_names),
            each.namespaced,
            frozenset(each.verbs),
        )
        for each in found.resources
        if "/" not in each.name and each.kind
    ]
