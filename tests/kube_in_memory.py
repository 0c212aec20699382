"""A kube-apiserver in memory, behind the ``APIClient`` of who uses one.

What it guarantees is in ``test_kube_in_memory``; ``e2e/test_kube_in_memory`` sees that the real one does the same with
a custom resource. What it does not do: it knows no schemas, serves every kind that is asked for with a status apart and
generations, gives lists in one page, remembers no managers of fields, and keeps objects with finalizers no longer than
others.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from answers import ReadyAnswer
from faults import Fault, nothing
from kube_paths import Place
from kube_store import JSON, KubeStore
from patches import APPLY, patched
from served_kinds import ServedKinds

from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError

_OF_THE_SERVER: Final = ("name", "namespace", "uid", "generation", "creationTimestamp", "resourceVersion")
"""Metadata that no write changes."""


class KubeInMemory(KubeStore):
    """See ``berthmaster.kube.client.APIClient``.

    Attributes:
        requests: all that were sent, in order, whatever came of them.
        done: the writes that were carried out.
        before: what befalls each request before it is looked at.
        after: what befalls the answer to each request that was carried out.
        served: what discovery says.
        oldest: since which version changes are remembered for watches.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        super().__init__()
        self.requests: list[APIRequest] = []
        self.done: list[APIRequest] = []
        self.before: Fault = nothing
        self.after: Fault = nothing
        self.served = ServedKinds()
        self.oldest = 0
        self._now = now
        self._cut = threading.Event()

    @property
    def methods(self) -> list[str]:
        """Of all requests so far."""
        return [request.method for request in self.requests]

    def bodies(self, method: str) -> list[JSON]:
        """What was sent by a method so far."""
        return [json.loads(request.body) for request in self.requests if request.method == method]

    def writes(self) -> list[APIRequest]:
        """The requests so far that were to change something."""
        return [request for request in self.requests if not request.is_read and "dryRun" not in dict(request.query)]

    def cut_watches(self, *, forget: bool = False) -> None:
        """End all watches; with ``forget``, nobody may go on from before now."""
        with self.changed:
            self._cut.set()
            self._cut = threading.Event()
            self.oldest = self.version if forget else self.oldest
            self.changed.notify_all()

    def send(self, request: APIRequest) -> ReadyAnswer:
        """See ``APIClient``."""
        self.requests.append(request)
        self.before(request)
        place = Place.of(request.path)
        with self.changed:
            if request.method == "GET" and "watch" in dict(request.query):
                answer = self._watched(request, place)
            elif request.method == "GET":
                answer = _json(self._read(request.path, place))
            else:
                answer = _json(self._written(request, place))
        self.after(request)
        return answer

    def _read(self, path: str, place: Place) -> JSON:
        if not place.plural:
            return self.served.answer(path)
        if place.name:
            return self._found(path.removesuffix("/status"))
        return {"metadata": {"resourceVersion": str(self.version)}, "items": self.all(path)}

    def _found(self, path: str) -> JSON:
        if path not in self.objects:
            raise ApiError(404, "NotFound", f"{path} not found")
        return self.objects[path]

    def _watched(self, request: APIRequest, place: Place) -> ReadyAnswer:
        """The changes since the version that is asked for, and all later ones until the watch ends."""
        since, over, cut = int(dict(request.query)["resourceVersion"]), threading.Event(), self._cut
        if since < self.oldest:
            raise ApiError(410, "Expired", f"version {since} is too old")

        def lines() -> Iterator[bytes]:
            seen = since
            while True:
                with self.changed:
                    while not (cut.is_set() or over.is_set() or self.version > seen):
                        self.changed.wait()
                    news = self.changes[seen:]
                if cut.is_set() or over.is_set():
                    return
                seen += len(news)
                for change in news:
                    if place.holds(change.path):
                        yield json.dumps({"type": change.kind, "object": change.content}).encode() + b"\n"

        def abort() -> None:
            with self.changed:
                over.set()
                self.changed.notify_all()

        return ReadyAnswer(lines(), abort=abort)

    def _written(self, request: APIRequest, place: Place) -> JSON:
        content = json.loads(request.body) if request.body else {}
        path = request.path.removesuffix("/status")
        tried = "dryRun" in dict(request.query)
        assert request.method == "POST" or not tried, "nobody was to try anything but a creation"
        if request.method == "POST":
            metadata = content["metadata"]
            if "resourceVersion" in metadata:
                raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
            name = metadata.get("name") or f"{metadata['generateName']}{self.version:05}"
            answer = self._created(f"{path}/{name}", content, tried=tried)
        elif request.method == "DELETE":
            _guard(self._found(path)["metadata"], content.get("preconditions", {}), "uid", "resourceVersion")
            self.remove(path)
            answer = {"kind": "Status", "status": "Success"}
        elif request.content_type == APPLY and path not in self.objects:
            if content["metadata"].get("uid"):
                raise ApiError(409, "Conflict", f"{path} is not there, and what is meant has a uid")
            answer = self._created(path, content)
        else:
            after = content if request.method == "PUT" else patched(self._found(path), request)
            answer = self._updated(path, after, place, request.method)
        if not tried:
            self.done.append(request)
        return answer

    def _created(self, path: str, content: JSON, *, tried: bool = False) -> JSON:
        if path in self.objects:
            raise ApiError(409, "AlreadyExists", f"{path} is there already")
        stamp = self._now().isoformat(timespec="seconds").replace("+00:00", "Z")
        metadata = {name: value for name, value in content["metadata"].items() if name not in ("uid", "generation")}
        made = {**content, "metadata": {**metadata, "creationTimestamp": stamp}}
        made.pop("status", None)
        return made if tried else self.put(path, made)

    def _updated(self, path: str, after: JSON, place: Place, method: str) -> JSON:
        """What there is after a write of the whole, or of its status alone."""
        before = self._found(path)
        known, wanted = before["metadata"], after.get("metadata", {})
        _see_that_it_means(known, wanted, place, method)
        if place.subresource:
            after = {**before, "status": after.get("status")}
        else:
            kept = {field: known[field] for field in _OF_THE_SERVER if field in known}
            after = {**after, "metadata": {**wanted, **kept}, "status": before.get("status")}
        if after["status"] is None:
            del after["status"]
        return before if after == before else self.put(path, after)


def _see_that_it_means(known: JSON, wanted: JSON, place: Place, method: str) -> None:
    """See that a write means what is there: in a patch, the metadata after it."""
    if wanted.get("name") != known["name"]:
        raise ApiError(400, "BadRequest", f"the name does not match {known['name']}")
    if not wanted.get("resourceVersion"):
        raise ApiError(422, "Invalid", "metadata.resourceVersion must be specified for an update")
    _guard(known, wanted, "resourceVersion")
    if method == "PUT":
        _guard(known, wanted, "uid")
    elif not place.subresource and wanted.get("uid") != known["uid"]:
        raise ApiError(422, "Invalid", "metadata.uid cannot be changed")


def _guard(known: JSON, guards: Mapping[str, Any], *fields: str) -> None:
    for field in fields:
        if guards.get(field, known[field]) != known[field]:
            raise ApiError(409, "Conflict", f"another {field} than {guards[field]}")


def _json(content: JSON) -> ReadyAnswer:
    return ReadyAnswer([json.dumps(content).encode()])
