"""API discovery: which kinds an API server serves, and where (``APIResourceList``)."""

import re
import threading
from typing import Final, NamedTuple

import msgspec

from berthmaster.kube.client import APIClient, ask_if_found
from berthmaster.kube.requests import APIRequest, Collection, api_root
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, FieldError
from berthmaster.runtime.clock import Clock

CACHE_S: Final = 30.0
"""How long a response is cached. Karmada refreshes its cache as often."""
MAX_GROUP_VERSIONS: Final = 512
_API_VERSION: Final = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+")
_NEEDED_VERBS: Final = frozenset({"get", "list", "watch", "patch"})


class ServedKind(NamedTuple):
    """A kind that an API server serves."""

    collection: Collection
    namespaced: bool


class ServedResource(msgspec.Struct, frozen=True):
    """``meta/v1.APIResource``: a resource or subresource of a group version."""

    name: str
    kind: str = ""
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class APIResourceList(msgspec.Struct, frozen=True):
    """``meta/v1.APIResourceList``: the resources of a group version."""

    resources: tuple[ServedResource, ...] = ()


class Discovery:
    """Looks up served kinds and caches the responses. Safe for several threads."""

    def __init__(self, client: APIClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._lock = threading.Lock()
        self._cache: dict[str, tuple[float, dict[str, ServedKind]]] = {}

    def find(self, api_version: str, kind: str) -> ServedKind | None:
        """Find a kind. Return None if it is not served, or cannot be watched and patched."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            fetched_s, kinds = self._cache.get(api_version, (now_s - CACHE_S, {}))
        if now_s - fetched_s >= CACHE_S:
            kinds = self._fetch(api_version)
            with self._lock:
                if len(self._cache) >= MAX_GROUP_VERSIONS:
                    self._cache.clear()
                self._cache[api_version] = (now_s, kinds)
        return kinds.get(kind)

    def _fetch(self, api_version: str) -> dict[str, ServedKind]:
        if not is_api_version(api_version):  # user input must not lead to another path
            return {}
        body = ask_if_found(self._client, APIRequest(api_root(api_version)))
        if body is None:
            return {}
        try:
            found = decode_json(APIResourceList, body)
        except FieldError as error:
            raise ApiError(0, "", f"cannot decode the resources of {api_version}: {error}") from None
        return {
            each.kind: ServedKind(Collection.of(api_version, each.name), each.namespaced)
            for each in found.resources
            if "/" not in each.name and _NEEDED_VERBS.issubset(each.verbs)
        }


def is_api_version(text: str) -> bool:
    """Return whether a text has the form of an ``apiVersion``, and therefore leads to no other path."""
    return _API_VERSION.fullmatch(text) is not None
