"""An API server in memory, as a connection sees it: discovery, objects, lists, watches, guarded merge patches."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from copy import deepcopy
from typing import Any
from urllib.parse import unquote

from fleet.errors import ApiError
from fleet.kube.requests import Collection, Request

JSON = dict[str, Any]
VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


class MemoryApi:
    """See ``fleet.kube.transport.Connection``.

    Attributes:
        requests: all that were sent.
        before: called with each request before it is answered; it may raise, or change what is stored.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.before: Callable[[Request], None] = lambda _: None
        self._changed = threading.Condition(threading.RLock())
        self._kinds: dict[str, list[JSON]] = {}
        self._objects: dict[str, JSON] = {}
        self._events: list[tuple[int, str, bytes]] = []
        self._version = 0

    def serve(self, api_version: str, kind: str, plural: str, *, namespaced: bool = True) -> Collection:
        """Serve a kind."""
        root = "apis" if "/" in api_version else "api"
        resource = {"name": plural, "kind": kind, "namespaced": namespaced, "verbs": VERBS}
        self._kinds.setdefault(f"/{root}/{api_version}", []).append(resource)
        return Collection.of(api_version, plural)

    def withdraw(self, api_version: str) -> None:
        """Serve the kinds of a group and version no more."""
        root = "apis" if "/" in api_version else "api"
        del self._kinds[f"/{root}/{api_version}"]

    def put(self, manifest: Mapping[str, Any]) -> JSON:
        """Store an object, new or in the place of what it is now."""
        with self._changed:
            path = self._path(manifest)
            known = self._objects.get(path)
            stored = json.loads(json.dumps(manifest))
            stored["metadata"].setdefault("uid", known["metadata"]["uid"] if known else f"uid-{self._version}")
            return self._store(path, stored, "MODIFIED" if known else "ADDED")

    def get(self, target: Mapping[str, Any]) -> JSON:
        """An object as it is stored."""
        return deepcopy(self._objects[self._path(target)])

    def stored(self) -> list[JSON]:
        """All there is."""
        return list(self._objects.values())

    def remove(self, target: Mapping[str, Any]) -> None:
        """An object is gone."""
        with self._changed:
            path = self._path(target)
            gone = self._objects[path]
            self._store(path, gone, "DELETED")
            del self._objects[path]

    def writes(self) -> list[Request]:
        """The requests that were to change something."""
        return [request for request in self.requests if request.method != "GET"]

    def send(self, request: Request) -> "Answered":
        """See ``Connection``."""
        self.before(request)
        with self._changed:
            self.requests.append(request)
            path, query = unquote(request.path), dict(request.query)
            if request.method == "PATCH":
                return Answered(self._patched(path, json.loads(request.body)))
            if path in self._objects:
                return Answered(self._objects[path])
            if path in self._kinds:
                return Answered({"resources": self._kinds[path]})
            if not self._is_collection(path):
                raise ApiError(404, "NotFound", f"{path} is not there")
            if "watch" in query:
                return Answered(None, self._watched(path, int(query["resourceVersion"])))
            items = [each for key, each in self._objects.items() if self._collection_of(key) == path]
            return Answered({"metadata": {"resourceVersion": str(self._version)}, "items": items})

    def _patched(self, path: str, patch: JSON) -> JSON:
        known = self._objects.get(path)
        if known is None:
            raise ApiError(404, "NotFound", f"{path} is not there")
        guard = patch.get("metadata", {}).get("resourceVersion")
        if guard not in (None, known["metadata"]["resourceVersion"]):
            raise ApiError(409, "Conflict", f"{path} has changed")
        return self._store(path, merged(known, patch), "MODIFIED")

    def _store(self, path: str, content: JSON, change: str) -> JSON:
        self._version += 1
        content["metadata"]["resourceVersion"] = str(self._version)
        self._objects[path] = content
        line = json.dumps({"type": change, "object": content}).encode() + b"\n"
        self._events.append((self._version, self._collection_of(path), line))
        self._changed.notify_all()
        return deepcopy(content)

    def _watched(self, collection: str, version: int) -> Callable[["Answered"], Iterator[bytes]]:
        def lines(answer: "Answered") -> Iterator[bytes]:
            position = 0
            while not answer.ended.is_set():
                with self._changed:
                    fresh = self._events[position:]
                    if not fresh:
                        self._changed.wait(0.01)
                position += len(fresh)
                yield from (line for at, where, line in fresh if where == collection and at > version)

        return lines

    def _path(self, target: Mapping[str, Any]) -> str:
        root = "apis" if "/" in target["apiVersion"] else "api"
        kinds = self._kinds[f"/{root}/{target['apiVersion']}"]
        plural = next(each["name"] for each in kinds if each["kind"] == target["kind"])
        metadata = target["metadata"]
        return Collection.of(target["apiVersion"], plural).object((metadata.get("namespace", ""), metadata["name"]))

    def _is_collection(self, path: str) -> bool:
        root, _, plural = path.rpartition("/")
        return any(each["name"] == plural for each in self._kinds.get(root, ()))

    @staticmethod
    def _collection_of(path: str) -> str:
        """``/apis/apps/v1/deployments`` of ``/apis/apps/v1/namespaces/default/deployments/web``."""
        parts = path.split("/")[:-1]
        return "/".join([*parts[:-3], parts[-1]] if parts[-3] == "namespaces" and len(parts) > 5 else parts)


class Answered(AbstractContextManager["Answered"]):
    """See ``fleet.kube.transport.Answer``."""

    def __init__(self, content: Any, lines: Callable[["Answered"], Iterator[bytes]] | None = None) -> None:
        self._body = json.dumps(content).encode()
        self._lines = lines
        self.ended = threading.Event()

    def __exit__(self, *_: object) -> None:
        self.ended.set()

    def chunks(self) -> Iterator[bytes]:
        return iter([self._body]) if self._lines is None else self._lines(self)

    def abort(self) -> None:
        self.ended.set()


def merged(target: Any, patch: Any) -> Any:
    """A JSON merge patch applied (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
