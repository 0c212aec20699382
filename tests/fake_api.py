"""An API server in memory, behind the ``Connection`` that controllers use: versions, conflicts, watches, and faults."""

import json
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from queue import Queue
from types import TracebackType
from typing import Any, Self

from fleet.errors import ApiError
from fleet.kube.requests import Collection, Request

JSON = dict[str, Any]
Fault = Callable[[Request], ApiError | None]


def lost(_request: Request) -> ApiError:
    """Nobody answered."""
    return ApiError(0, "", "the connection broke")


class FakeApi:
    """Objects of a few collections. Safe for several threads.

    Attributes:
        before: asked before a request is carried out; an error it returns is raised instead.
        after: asked once it was carried out; an error it returns is raised: the answer is lost.
        writes: method, path and body of each write that was carried out.
    """

    def __init__(self, *collections: Collection) -> None:
        self.before: Fault = lambda _: None
        self.after: Fault = lambda _: None
        self.writes: list[tuple[str, str, JSON]] = []
        self._lock = threading.RLock()
        self._version = 100
        self._collections: list[Collection] = []
        self._objects: dict[str, dict[str, JSON]] = {}
        self._watchers: dict[str, list[Queue[bytes | None]]] = {}
        for each in collections:
            self.add(each)

    def add(self, collection: Collection) -> None:
        """One more collection."""
        with self._lock:
            self._collections.append(collection)
            self._objects[collection.path] = {}
            self._watchers[collection.path] = []

    def put(self, collection: Collection, thing: JSON) -> JSON:
        """Store an object as somebody else would: a new version, a new generation if its spec differs."""
        with self._lock:
            path = self._path(collection, thing)
            before = self._objects[collection.path].get(path)
            return self._store(collection.path, path, before, json.loads(json.dumps(thing)))

    def change(self, collection: Collection, thing: JSON, patch: JSON) -> JSON:
        """Merge a patch into an object as somebody else would."""
        with self._lock:
            path = self._path(collection, thing)
            before = self._objects[collection.path][path]
            return self._store(collection.path, path, before, merged(before, patch))

    def get(self, collection: Collection, thing: JSON) -> JSON:
        """An object as it is."""
        with self._lock:
            return self._objects[collection.path][self._path(collection, thing)]

    def all(self, collection: Collection) -> list[JSON]:
        """All objects of a collection."""
        with self._lock:
            return list(self._objects[collection.path].values())

    def remove(self, collection: Collection, thing: JSON) -> None:
        """Delete an object."""
        with self._lock:
            gone = self._objects[collection.path].pop(self._path(collection, thing))
            self._notify(collection.path, "DELETED", gone)

    def cut_watches(self) -> None:
        """End every watch."""
        with self._lock:
            for watchers in self._watchers.values():
                for watcher in watchers:
                    watcher.put(None)

    def send(self, request: Request) -> "FakeAnswer":
        """See ``Connection``."""
        if (error := self.before(request)) is not None:
            raise error
        query = dict(request.query)
        if query.get("watch"):
            return self._watch(request.path)
        with self._lock:
            answer = self._list(request.path) if request.path in self._objects else self._object(request)
        if (error := self.after(request)) is not None:
            raise error
        return FakeAnswer(iter([json.dumps(answer).encode()]))

    def _path(self, collection: Collection, thing: JSON) -> str:
        metadata = thing["metadata"]
        return collection.object((metadata.get("namespace", ""), metadata["name"]))

    def _list(self, path: str) -> JSON:
        return {"metadata": {"resourceVersion": str(self._version)}, "items": list(self._objects[path].values())}

    def _watch(self, path: str) -> "FakeAnswer":
        watcher: Queue[bytes | None] = Queue()
        with self._lock:
            self._watchers[path].append(watcher)
            # What changed between the list and the watch: everything is told once more, which mirrors take as news of
            # what they know.
            for thing in self._objects[path].values():
                watcher.put(line("MODIFIED", thing))
        return FakeAnswer(iter(watcher.get, None), lambda: watcher.put(None))

    def _object(self, request: Request) -> JSON:
        collection = next(each for each in self._collections if self._within(each, request.path))
        path, _, subresource = request.path.partition("/status")
        status = bool(subresource) or request.path.endswith("/status")
        before = self._objects[collection.path].get(path)
        if before is None:
            raise ApiError(HTTPStatus.NOT_FOUND, "NotFound", f"{request.method} {path}: 404")
        if request.method == "GET":
            return before
        patch = json.loads(request.body)
        wanted = patch.get("metadata", {}).get("resourceVersion")
        if wanted is not None and wanted != before["metadata"]["resourceVersion"]:
            raise ApiError(HTTPStatus.CONFLICT, "Conflict", f"{request.method} {path}: 409 the object was modified")
        self.writes.append((request.method, request.path, patch))
        kept = {"status": patch.get("status")} if status else {key: patch[key] for key in patch if key != "status"}
        patch = {**kept, "metadata": {**patch.get("metadata", {}), "resourceVersion": "0"}}
        return self._store(collection.path, path, before, merged(before, patch))

    @staticmethod
    def _within(collection: Collection, path: str) -> bool:
        return path.startswith(collection.path + "/") or f"/{collection.what}/" in path

    def _store(self, collection: str, path: str, before: JSON | None, after: JSON) -> JSON:
        self._version += 1
        metadata = after["metadata"]
        generation = 1 if before is None else before["metadata"]["generation"]
        if before is not None and before.get("spec") != after.get("spec"):
            generation += 1
        metadata.update(resourceVersion=str(self._version), generation=generation)
        self._objects[collection][path] = after
        self._notify(collection, "ADDED" if before is None else "MODIFIED", after)
        return after

    def _notify(self, collection: str, kind: str, thing: JSON) -> None:
        for watcher in self._watchers[collection]:
            watcher.put(line(kind, thing))


class FakeAnswer:
    """See ``Answer``."""

    def __init__(self, parts: Iterator[bytes], abort: Callable[[], None] = lambda: None) -> None:
        self._parts = parts
        self.abort = abort

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def chunks(self) -> Iterator[bytes]:
        return self._parts


def line(kind: str, thing: JSON) -> bytes:
    """An event of a watch."""
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"


def merged(before: Any, patch: Any) -> Any:
    """A JSON merge patch applied (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    after = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = merged(after.get(key), value)
    return after
