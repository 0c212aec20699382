"""The API server in memory with discovery: objects go by their apiVersion and kind, and all requests are kept."""

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from http import HTTPStatus
from typing import Any

from fake_api import JSON, FakeAnswer, FakeApi, Fault

from fleet.errors import ApiError
from fleet.kube.requests import Collection, Request

VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
_DISCOVERY = re.compile(r"/api/[^/]+|/apis/[^/]+/[^/]+")


class MemoryApi:
    """See ``fleet.kube.transport.Connection``.

    Attributes:
        requests: all that were answered, or refused by the server itself.
        before: as ``FakeApi.before``; it may also change what is stored.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.before: Fault = lambda _: None
        self._fake = FakeApi()
        self._served: dict[str, list[JSON]] = {}
        self._collections: dict[tuple[str, str], Collection] = {}

    def serve(self, api_version: str, kind: str, plural: str, *, namespaced: bool = True) -> Collection:
        """Serve a kind."""
        collection = self._collections[api_version, kind] = Collection.of(api_version, plural)
        self._fake.add(collection)
        resource = {"name": plural, "kind": kind, "namespaced": namespaced, "verbs": VERBS}
        self.resources(api_version).append(resource)
        return collection

    def resources(self, api_version: str) -> list[JSON]:
        """What discovery says of a group and version, to be changed at will."""
        return self._served.setdefault(_root(api_version), [])

    def withdraw(self, api_version: str) -> None:
        """Serve the kinds of a group and version no more."""
        del self._served[_root(api_version)]

    def put(self, manifest: Mapping[str, Any]) -> JSON:
        """Store an object, new or in the place of what it is now."""
        stored = deepcopy(dict(manifest))
        stored["metadata"].setdefault("uid", f"uid-of-{stored['metadata']['name']}")
        return deepcopy(self._fake.put(self._collection(manifest), stored))

    def get(self, target: Mapping[str, Any]) -> JSON:
        """An object as it is stored; a ``KeyError`` if it is not."""
        return deepcopy(self._fake.get(self._collection(target), dict(target)))

    def remove(self, target: Mapping[str, Any]) -> None:
        """An object is gone."""
        self._fake.remove(self._collection(target), dict(target))

    def stored(self, kind: str) -> list[JSON]:
        """All objects of a kind."""
        found = (each for (_, one), each in self._collections.items() if one == kind)
        return [deepcopy(thing) for each in found for thing in self._fake.all(each)]

    def writes(self) -> list[Request]:
        """The requests that were to change something."""
        return [request for request in self.requests if not request.reads]

    def send(self, request: Request) -> FakeAnswer:
        """See ``Connection``."""
        if (error := self.before(request)) is not None:
            raise error
        self.requests.append(request)
        if not _DISCOVERY.fullmatch(request.path):
            return self._fake.send(request)
        if request.path not in self._served:
            raise ApiError(HTTPStatus.NOT_FOUND, "NotFound", f"{request.path} is not served")
        return FakeAnswer(iter([json.dumps({"resources": self._served[request.path]}).encode()]))

    def _collection(self, target: Mapping[str, Any]) -> Collection:
        return self._collections[target["apiVersion"], target["kind"]]


def _root(api_version: str) -> str:
    return f"/{'apis' if '/' in api_version else 'api'}/{api_version}"
