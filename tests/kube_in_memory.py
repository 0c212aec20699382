"""An API server in memory, as an ``APIClient``.

``e2e/test_kube_in_memory`` compares it with a real API server and a custom resource. It knows no schemas, serves each
requested kind with a status subresource and generations, pages lists without a snapshot, and tracks no field managers.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, Final

import msgspec
from faults import Fault, nothing
from kube_store import APPLY, JSON, KubeStore, Place, patched

from berthmaster.kube.requests import APIRequest, Collection, api_root
from berthmaster.model.errors import ApiError
from berthmaster.model.selector import parse_selector

_IMMUTABLE: Final = (
    "name", "namespace", "uid", "generation", "creationTimestamp", "deletionTimestamp", "resourceVersion"
)  # fmt: skip
"""Metadata that no write changes."""
_QUIET_S: Final = 20.0
_ALL_VERBS: Final = ["create", "delete", "get", "list", "patch", "update", "watch"]


class ReadyResponse(AbstractContextManager["ReadyResponse"]):
    """An ``APIResponse`` whose body is complete."""

    def __init__(
        self,
        chunks: Iterable[bytes],
        headers: Mapping[str, list[str]] | None = None,
        abort: Callable[[], None] = lambda: None,
    ) -> None:
        self._chunks = chunks
        self._headers = headers or {}
        self.abort = abort

    def __exit__(self, *_: object) -> None:
        pass

    def chunks(self) -> Iterator[bytes]:
        return iter(self._chunks)

    def header(self, name: str) -> list[str]:
        return self._headers.get(name, [])


class ScriptedClient:
    """An ``APIClient`` that responds by method and path, and with 404 to anything else. It stores nothing.

    Attributes:
        answers: by ``GET /version`` and so on: an object, an error, a function of the request, or a list with one of
            these for each request.
        asked: every request so far.
        headers: the headers of each response.
    """

    def __init__(self, answers: Mapping[str, Any], *, now: datetime | None = None) -> None:
        self.answers = dict(answers)
        self.asked: list[APIRequest] = []
        self.headers: dict[str, list[str]] = {"Date": [format_datetime(now, usegmt=True)]} if now else {}

    def send(self, request: APIRequest) -> ReadyResponse:
        self.asked.append(request)
        answer = self.answers.get(str(request))
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if callable(answer):
            answer = answer(request)
        if answer is None:
            raise ApiError(404, "NotFound", f"{request}: 404 not found")
        if isinstance(answer, Exception):
            raise answer
        return ReadyResponse([json.dumps(answer).encode()], self.headers)


class ServedKinds:
    """The discovery of an API server: kinds by their group versions."""

    def __init__(self) -> None:
        self._resources: dict[str, list[dict[str, Any]]] = {}

    def add(self, api_version: str, kind: str, plural: str, *short_names: str, namespaced: bool = True) -> None:
        resource = {"name": plural, "kind": kind, "namespaced": namespaced, "verbs": _ALL_VERBS}
        if short_names:
            resource["shortNames"] = list(short_names)
        self.resources(api_version).append(resource)

    def resources(self, api_version: str) -> list[dict[str, Any]]:
        """Return the resources of a group version. The caller may change the list."""
        return self._resources.setdefault(api_root(api_version), [])

    def withdraw(self, api_version: str) -> None:
        del self._resources[api_root(api_version)]

    def answer(self, root: str) -> dict[str, Any]:
        """Return the ``APIResourceList`` of a group version."""
        if root not in self._resources:
            raise ApiError(404, "NotFound", f"{root} is not served")
        return {"kind": "APIResourceList", "resources": self._resources[root]}

    def aggregated(self, path: str) -> dict[str, Any]:
        """Return the ``APIGroupDiscoveryList`` of ``/api`` or ``/apis``."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for root, resources in self._resources.items():
            group, _, version = root.removeprefix(f"{path}/").rpartition("/")
            if root.startswith(f"{path}/"):
                described = [_aggregated(each, group, version) for each in resources]
                groups.setdefault(group, []).append({"version": version, "resources": described})
        items = [{"metadata": {"name": group}, "versions": versions} for group, versions in groups.items()]
        return {"kind": "APIGroupDiscoveryList", "items": items}

    def path(self, manifest: Mapping[str, Any]) -> str:
        api_version, metadata = manifest["apiVersion"], manifest["metadata"]
        plurals = {each["kind"]: each["name"] for each in self.resources(api_version)}
        collection = Collection.of(api_version, plurals[manifest["kind"]])
        return collection.object((metadata.get("namespace", ""), metadata["name"]))


def _aggregated(resource: Mapping[str, Any], group: str, version: str) -> dict[str, Any]:
    return {
        "resource": resource["name"],
        "responseKind": {"group": group, "version": version, "kind": resource["kind"]},
        "scope": "Namespaced" if resource["namespaced"] else "Cluster",
        "verbs": resource["verbs"],
        "shortNames": resource.get("shortNames", []),
    }


class KubeInMemory(KubeStore):
    """An ``APIClient`` with the API server behind it.

    Attributes:
        requests: all requests so far, in order.
        done: the successful writes.
        before: called with each request before it is processed.
        after: called with each processed request before its response.
        served: the discovery.
        oldest: the oldest version from which a watch can start.
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
        return [request.method for request in self.requests]

    def bodies(self, method: str) -> list[JSON]:
        return [json.loads(request.body) for request in self.requests if request.method == method]

    def writes(self) -> list[APIRequest]:
        """All requests so far that try to change something, without dry runs."""
        return [request for request in self.requests if not request.is_read and "dryRun" not in dict(request.query)]

    def cut_watches(self, *, forget: bool = False) -> None:
        """End all watches. With ``forget``, later watches cannot start from a version before now."""
        with self.changed:
            self._cut.set()
            self._cut = threading.Event()
            self.oldest = self.version if forget else self.oldest
            self.changed.notify_all()

    def send(self, request: APIRequest) -> ReadyResponse:
        self.requests.append(request)
        self.before(request)
        if request.path in ("/api", "/apis"):
            return _json(self.served.aggregated(request.path))
        if request.path == "/version":
            return _json({"gitVersion": "v1.36.0"})
        if request.path.startswith("/openapi/"):
            raise ApiError(404, "NotFound", "no schemas are published")
        place = Place.of(request.path)
        with self.changed:
            if request.method == "GET" and "watch" in dict(request.query):
                answer = self._watched(request, place)
            elif request.method == "GET":
                answer = _json(self._read(request, place))
            else:
                answer = _json(self._written(request, place))
        self.after(request)
        return answer

    def _read(self, request: APIRequest, place: Place) -> JSON:
        if not place.plural:
            return self.served.answer(request.path)
        if place.name:
            return _as_accepted(self._found(request.path.removesuffix("/status")), request)
        selected = dict(request.query).get("labelSelector", "")
        items = [_as_accepted(each, request) for each in self.all(request.path) if _has_labels(each, selected)]
        return _page(items, dict(request.query), str(self.version))

    def _found(self, path: str) -> JSON:
        if path not in self.objects:
            raise ApiError(404, "NotFound", f"{path} not found")
        return self.objects[path]

    def _watched(self, request: APIRequest, place: Place) -> ReadyResponse:
        """Stream the changes since the requested version until the watch ends."""
        since, over, cut = int(dict(request.query)["resourceVersion"]), threading.Event(), self._cut
        if since < self.oldest:
            raise ApiError(410, "Expired", f"version {since} is too old")

        def lines() -> Iterator[bytes]:
            seen = since
            while True:
                with self.changed:
                    if not (cut.is_set() or over.is_set() or self.version > seen):
                        self.changed.wait(_QUIET_S)
                    news = self.changes[seen:]
                if cut.is_set() or over.is_set():
                    return
                if not news:
                    yield b"\n"  # so that clients do not take the watch for broken; an API server sends bookmarks
                seen += len(news)
                for change in news:
                    if place.holds(change.path):
                        yield msgspec.json.encode({"type": change.kind, "object": change.content}) + b"\n"

        def abort() -> None:
            with self.changed:
                over.set()
                self.changed.notify_all()

        return ReadyResponse(lines(), abort=abort)

    def _written(self, request: APIRequest, place: Place) -> JSON:
        content = json.loads(request.body) if request.body else {}
        path = request.path.removesuffix("/status")
        dry_run = "dryRun" in dict(request.query)
        assert request.method == "POST" or not dry_run, "only a create may be a dry run"
        if request.method == "POST":
            metadata = content["metadata"]
            if "resourceVersion" in metadata:
                raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
            name = metadata.get("name") or f"{metadata['generateName']}{self.version:05}"
            answer = self._created(f"{path}/{name}", content, dry_run=dry_run)
        elif request.method == "DELETE":
            _guard(self._found(path)["metadata"], content.get("preconditions", {}), "uid", "resourceVersion")
            self.delete(path, self._stamp())
            answer = {"kind": "Status", "status": "Success"}
        elif request.content_type == APPLY and path not in self.objects:
            if content["metadata"].get("uid"):
                raise ApiError(409, "Conflict", f"{path} does not exist, but the request has a uid")
            answer = self._created(path, content)
        else:
            after = content if request.method == "PUT" else patched(self._found(path), request)
            answer = self._updated(path, after, place, request.method)
        if not dry_run:
            self.done.append(request)
        return answer

    def _created(self, path: str, content: JSON, *, dry_run: bool = False) -> JSON:
        if path in self.objects:
            raise ApiError(409, "AlreadyExists", f"{path} already exists")
        metadata = {name: value for name, value in content["metadata"].items() if name not in ("uid", "generation")}
        made = {**content, "metadata": {**metadata, "creationTimestamp": self._stamp()}}
        made.pop("status", None)
        return made if dry_run else self.put(path, made)

    def _stamp(self) -> str:
        return self._now().isoformat(timespec="seconds").replace("+00:00", "Z")

    def _updated(self, path: str, after: JSON, place: Place, method: str) -> JSON:
        """Return an object after an update of the object or of its status."""
        before = self._found(path)
        known, wanted = before["metadata"], after.get("metadata", {})
        _check(known, wanted, place, method)
        if place.subresource:
            after = {**before, "status": after.get("status")}
        else:
            kept = {field: known[field] for field in _IMMUTABLE if field in known}
            after = {**after, "metadata": {**wanted, **kept}, "status": before.get("status")}
        if after["status"] is None:
            del after["status"]
        return before if after == before else self.put(path, after)


def _as_accepted(content: JSON, request: APIRequest) -> JSON:
    """Return an object, or only its metadata if the request asks for that."""
    if "as=PartialObjectMetadata" not in request.accept:
        return content
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": content["metadata"]}


def _has_labels(content: JSON, selector: str) -> bool:
    return not selector or parse_selector(selector).matches(content["metadata"].get("labels") or {})


def _page(items: list[JSON], query: Mapping[str, str], version: str) -> JSON:
    """Return a page of a list. The continue token is the number of objects of earlier pages."""
    token = query.get("continue", "")
    start = int(token) if token.isdecimal() else 0
    end = start + int(query.get("limit", len(items)))
    metadata: JSON = {"resourceVersion": version}
    if end < len(items):
        metadata |= {"continue": str(end), "remainingItemCount": len(items) - end}
    return {"metadata": metadata, "items": items[start:end]}


def _check(known: JSON, wanted: JSON, place: Place, method: str) -> None:
    """Check an update. For a patch, ``wanted`` is the metadata after the patch."""
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
            raise ApiError(409, "Conflict", f"the {field} is not {guards[field]}")


def _json(content: JSON) -> ReadyResponse:
    return ReadyResponse([msgspec.json.encode(content)])
