"""Which kinds an API server serves, and where (``APIResourceList``)."""

import re
import threading
from typing import Final, NamedTuple

import msgspec

from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.requests import APIRequest, Collection
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, FieldError
from berthmaster.runtime.clock import Clock

FRESH_S: Final = 30.0
"""How long an answer is believed: kinds come and go, but not every second (Karmada asks as often)."""
MAX_GROUP_VERSIONS: Final = 512
_API_VERSION: Final = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+")
_NEEDED_VERBS: Final = frozenset({"get", "list", "watch", "patch"})


class ServedKind(NamedTuple):
    """Where a kind is served.

    Attributes:
        collection: its path and plural name.
        namespaced: whether its objects live in namespaces.
    """

    collection: Collection
    namespaced: bool


class _Resource(msgspec.Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _ResourceList(msgspec.Struct, frozen=True):
    resources: tuple[_Resource, ...] = ()


class Discovery:
    """What an API server serves, asked when it is wanted and remembered for a while. Safe for several threads."""

    def __init__(self, client: APIClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, dict[str, ServedKind]]] = {}

    def find(self, api_version: str, kind: str) -> ServedKind | None:
        """Where a kind is served; None if it is not, or not so that its objects can be watched and changed.

        Raises:
            ApiError: the server cannot be asked.
        """
        now_s = self._clock.monotonic_s()
        with self._lock:
            asked_s, kinds = self._known.get(api_version, (now_s - FRESH_S, {}))
        if now_s - asked_s >= FRESH_S:
            kinds = self._ask(api_version)
            with self._lock:
                if len(self._known) >= MAX_GROUP_VERSIONS:
                    self._known.clear()
                self._known[api_version] = (now_s, kinds)
        return kinds.get(kind)

    def _ask(self, api_version: str) -> dict[str, ServedKind]:
        if not _API_VERSION.fullmatch(api_version):  # somebody wrote it: it must not lead to another path
            return {}
        root = "apis" if "/" in api_version else "api"
        try:
            answer = decode_json(_ResourceList, ask(self._client, APIRequest(f"/{root}/{api_version}")))
        except ApiError as error:
            if error.not_found:
                return {}
            raise
        except FieldError as error:
            raise ApiError(0, "", f"what {api_version} serves is not readable: {error}") from None
        return {
            each.kind: ServedKind(Collection.of(api_version, each.name), each.namespaced)
            for each in answer.resources
            if "/" not in each.name and _NEEDED_VERBS.issubset(each.verbs)
        }
