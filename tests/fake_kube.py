"""An API server in memory behind ``Connection``, and a clock that is told what time it is."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from fleet.errors import ApiError
from fleet.kube.requests import Request

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class FakeClock:
    """Stands still unless told.

    Attributes:
        passed_s: how long it runs.
        skew_s: by how much its time of day is wrong.
    """

    passed_s: float = 1000.0
    skew_s: float = 0.0

    def now(self) -> datetime:
        return BEGINNING + timedelta(seconds=self.passed_s + self.skew_s)

    def monotonic_s(self) -> float:
        return self.passed_s

    def pass_by(self, seconds: float) -> None:
        self.passed_s += seconds


class Body:
    """An answer."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def chunks(self) -> Iterator[bytes]:
        yield self._content

    def abort(self) -> None:
        pass


def refuse(status: int, retry_after_s: float = 0.0) -> Callable[[], None]:
    """A fault: the request is refused, and nothing has happened."""

    def fault() -> None:
        raise ApiError(status, "Told", f"{status} as told", retry_after_s)

    return fault


@dataclass
class FakeApi:
    """Objects by their paths, with resource versions that guard them.

    Attributes:
        objects: what is stored.
        asked: the requests so far.
        before: faults for the next requests, in order; None for none.
        lost: how many of the next writes take effect although their answers are lost.
        delay: called for each request before it is looked at, for what else happens meanwhile.
        log: every change: its version, type as a watch tells it, path and object.
        version: the last one.
    """

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[Request] = field(default_factory=list)
    before: list[Callable[[], None] | None] = field(default_factory=list)
    lost: int = 0
    delay: Callable[[], None] = lambda: None
    log: list[tuple[int, str, str, dict[str, Any]]] = field(default_factory=list)
    version: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def send(self, request: Request) -> Body:
        with self.changed:
            self.asked.append(request)
            self.delay()
            if self.before and (fault := self.before.pop(0)) is not None:
                fault()
            answer = Body(json.dumps(self._do(request)).encode())
            if request.method != "GET" and self.lost:
                self.lost -= 1
                raise ApiError(0, "", "the answer was lost")
            return answer

    @property
    def methods(self) -> list[str]:
        return [request.method for request in self.asked]

    def bodies(self, method: str) -> list[dict[str, Any]]:
        """What was sent by a method so far."""
        return [json.loads(request.body) for request in self.asked if request.method == method]

    def store(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        """Put an object there, as somebody else would."""
        with self.changed:
            self.version += 1
            metadata = {**content.get("metadata", {}), "resourceVersion": str(self.version)}
            known = path in self.objects
            self.objects[path] = {**content, "metadata": metadata}
            self.log.append((self.version, "MODIFIED" if known else "ADDED", path, self.objects[path]))
            self.changed.notify_all()
            return self.objects[path]

    def remove(self, path: str) -> dict[str, Any]:
        """Take an object away."""
        with self.changed:
            self.version += 1
            gone = self.objects.pop(path)
            metadata = {**gone["metadata"], "resourceVersion": str(self.version)}
            self.log.append((self.version, "DELETED", path, {**gone, "metadata": metadata}))
            self.changed.notify_all()
            return gone

    def _do(self, request: Request) -> dict[str, Any]:
        content = json.loads(request.body) if request.body else {}
        if request.method == "POST":
            path = f"{request.path}/{content['metadata']['name']}"
            if path in self.objects:
                raise ApiError(409, "AlreadyExists", "it is there")
            return self.store(path, content)
        known = self.objects.get(request.path)
        if known is None:
            raise ApiError(404, "NotFound", "it is not there")
        if request.method == "GET":
            return known
        if request.method == "DELETE":
            return self.remove(request.path)
        if (
            content.get("metadata", {}).get("resourceVersion", known["metadata"]["resourceVersion"])
            != (known["metadata"]["resourceVersion"])
        ):
            raise ApiError(409, "Conflict", "it has changed")
        return self.store(request.path, content if request.method == "PUT" else _merged(known, content))


def _merged(known: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(known) if isinstance(known, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result
