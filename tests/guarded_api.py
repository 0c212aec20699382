"""An API server in memory, strict about guards: versions, uids, preconditions, generations, the status apart."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from copy import deepcopy
from typing import Any

from fleet.errors import ApiError
from fleet.kube.messages import Key
from fleet.kube.requests import Collection, Request

JSON = dict[str, Any]


class GuardedApi:
    """See ``fleet.kube.transport.Connection``.

    Attributes:
        requests: all that were sent, in order.
        before: called with each request before it is answered; it may change what is stored, or raise an ApiError.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.before: Callable[[Request], None] = lambda _: None
        self._objects: dict[str, JSON] = {}
        self._version = 0

    def put(self, collection: Collection, manifest: JSON) -> JSON:
        """Store an object as it stands, with a version and a uid of its own; what it is now."""
        metadata = manifest["metadata"]
        path = collection.object((metadata.get("namespace", ""), metadata["name"]))
        stored = deepcopy(manifest)
        stored["metadata"].setdefault("uid", f"uid-{self._version}")
        stored["metadata"].setdefault("generation", 1)
        return self._store(path, stored)

    def get(self, collection: Collection, key: Key) -> JSON | None:
        """An object as it is stored; None if there is none."""
        return deepcopy(self._objects.get(collection.object(key)))

    def edit(self, collection: Collection, key: Key, subresource: str = "", **patch: Any) -> JSON:
        """A write of somebody else's, without any guard."""
        return self._patched(collection.object(key, subresource), patch)

    def remove(self, collection: Collection, key: Key) -> None:
        """An object is gone."""
        del self._objects[collection.object(key)]

    def writes(self) -> list[str]:
        """Method and path of each request that was to change something."""
        return [f"{request.method} {request.path}" for request in self.requests if request.method != "GET"]

    def send(self, request: Request) -> "Answered":
        """See ``Connection``."""
        self.requests.append(request)
        self.before(request)
        body = json.loads(request.body) if request.body else {}
        match request.method:
            case "GET":
                return Answered(self._found(request.path))
            case "PATCH":
                return Answered(self._patched(request.path, body))
            case "PUT":
                return Answered(self._patched(request.path, body))  # of objects that nobody takes fields from
            case "DELETE":
                return Answered(self._deleted(request.path, body.get("preconditions", {})))
        raise AssertionError(f"nobody was to send {request.method}")

    def _found(self, path: str) -> JSON:
        if path not in self._objects:
            raise ApiError(404, "NotFound", f"{path} not found")
        return self._objects[path]

    def _patched(self, path: str, patch: JSON) -> JSON:
        subresource = path.endswith("/status")
        path = path.removesuffix("/status")
        before = self._found(path)
        self._guard(before, patch.get("metadata", {}))
        after = merged(before, patch)
        for field in before.keys() | after.keys():
            if field not in ("kind", "apiVersion", "metadata") and (field == "status") != subresource:
                _keep(before, after, field)
        if after == before:
            return before  # the API server writes no version of which nothing is new
        if after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] = before["metadata"]["generation"] + 1
        return self._store(path, after)

    def _deleted(self, path: str, preconditions: JSON) -> JSON:
        self._guard(self._found(path), preconditions)
        return self._objects.pop(path)

    def _store(self, path: str, content: JSON) -> JSON:
        self._version += 1
        content["metadata"]["resourceVersion"] = str(self._version)
        self._objects[path] = content
        return deepcopy(content)

    @staticmethod
    def _guard(known: JSON, guards: JSON) -> None:
        for field in ("uid", "resourceVersion"):
            if guards.get(field, known["metadata"][field]) != known["metadata"][field]:
                raise ApiError(409, "Conflict", f"another {field} than {guards[field]}")


class Answered(AbstractContextManager["Answered"]):
    """See ``fleet.kube.transport.Answer``."""

    def __init__(self, content: Any) -> None:
        self._body = json.dumps(content).encode()

    def __exit__(self, *_: object) -> None:
        pass

    def chunks(self) -> Iterator[bytes]:
        return iter([self._body])

    def abort(self) -> None:
        pass


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


def _keep(before: JSON, after: JSON, field: str) -> None:
    after.pop(field, None)
    if field in before:
        after[field] = before[field]
