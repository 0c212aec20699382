"""An API server in memory: objects with versions, the kinds of patches that are sent, conflicts, a clock of its own."""

import base64
import copy
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Self

import jsonpatch

from fleet.errors import ApiError
from fleet.kube.requests import Request

Json = dict[str, Any]
_KINDS = {
    "/api/v1": [("secrets", "Secret", True), ("namespaces", "Namespace", False), ("configmaps", "ConfigMap", True)],
    "/apis/admissionregistration.k8s.io/v1": [
        ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False),
        ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False),
    ],
    "/apis/core.kubeadmiral.io/v1alpha1": [
        ("schedulerpluginwebhookconfigurations", "SchedulerPluginWebhookConfiguration", False),
        ("schedulingprofiles", "SchedulingProfile", False),
    ],
}


class _Body:
    """An answer."""

    def __init__(self, content: Json) -> None:
        self._data = json.dumps(content).encode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def chunks(self) -> Iterator[bytes]:
        yield self._data

    def abort(self) -> None:
        pass


class FakeCluster:
    """A ``Connection``.

    Attributes:
        objects: by their paths, as they are stored.
        sent: every request so far.
        refuse: asked about every request; an error that it returns is the answer.
        written: told of each path that was written, with the object, None for one that is gone.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._version = 0
        self.objects: dict[str, Json] = {}
        self.sent: list[Request] = []
        self.refuse: Callable[[Request], ApiError | None] = lambda _request: None
        self.written: Callable[[str, Json | None], None] = lambda _path, _content: None

    def send(self, request: Request) -> _Body:
        self.sent.append(request)
        if (error := self.refuse(request)) is not None:
            raise error
        if request.method == "GET" and request.path in _KINDS:
            verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
            listed = [
                {"name": name, "kind": kind, "namespaced": own, "verbs": verbs}
                for name, kind, own in _KINDS[request.path]
            ]
            return _Body({"kind": "APIResourceList", "resources": listed})
        return _Body(copy.deepcopy(self._answer(request)))

    def put(self, path: str, content: Json) -> Json:
        """Store an object as somebody else does."""
        return self._store(path, copy.deepcopy(content))

    def change(self, path: str, change: Callable[[Json], None]) -> None:
        """Edit an object by hand."""
        content = copy.deepcopy(self.objects[path])
        change(content)
        self._store(path, content)

    def drop(self, path: str) -> None:
        """Delete an object as somebody else does."""
        if self.objects.pop(path, None) is not None:
            self.written(path, None)

    def data(self, path: str) -> dict[str, bytes]:
        """What is in a Secret."""
        return {name: base64.b64decode(value) for name, value in self.objects[path].get("data", {}).items()}

    def writes(self) -> list[Request]:
        """Every request so far that changes something, events aside."""
        return [
            each
            for each in self.sent
            if each.method != "GET" and "dryRun" not in dict(each.query) and "/events" not in each.path
        ]

    def _answer(self, request: Request) -> Json:
        content = json.loads(request.body) if request.body else {}
        match request.method:
            case "GET":
                return self._found(request.path)
            case "POST":
                return self._created(request, content)
            case "DELETE":
                return self._deleted(request.path, content)
            case _:
                return self._patched(request, content)

    def _found(self, path: str) -> Json:
        if path not in self.objects:
            raise ApiError(404, "NotFound", f"{path} is not there")
        return self.objects[path]

    def _created(self, request: Request, content: Json) -> Json:
        stamp = self._now().isoformat(timespec="seconds").replace("+00:00", "Z")
        if dict(request.query).get("dryRun"):
            return {**content, "metadata": {**content["metadata"], "creationTimestamp": stamp}}
        path = f"{request.path}/{content['metadata']['name']}"
        if path in self.objects:
            raise ApiError(409, "AlreadyExists", f"{path} is there already")
        content["metadata"] |= {"creationTimestamp": stamp, "uid": f"uid-{self._version + 1}"}
        return self._store(path, content)

    def _deleted(self, path: str, options: Json) -> Json:
        wanted = options.get("preconditions", {}).get("uid")
        if wanted and self._found(path)["metadata"].get("uid") != wanted:
            raise ApiError(409, "Conflict", "it is another one")
        found = self._found(path)
        self.drop(path)
        return found

    def _patched(self, request: Request, change: Any) -> Json:
        applied = "apply-patch" in request.content_type
        if applied and request.path not in self.objects:
            return self._store(request.path, change)
        before = self._found(request.path)
        if "json-patch+json" in request.content_type:
            after = jsonpatch.apply_patch(copy.deepcopy(before), change)
        else:
            after = _merged(copy.deepcopy(before), change, keyed=applied)
        told = after["metadata"].get("resourceVersion")
        if told != before["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "the object has been modified")
        return before if after == before else self._store(request.path, after)

    def _store(self, path: str, content: Json) -> Json:
        self._version += 1
        content["metadata"]["resourceVersion"] = str(self._version)
        content["metadata"].setdefault("uid", f"uid-{self._version}")
        self.objects[path] = content
        self.written(path, content)
        return content


def _merged(before: Any, change: Any, *, keyed: bool) -> Any:
    """A JSON merge patch; lists of things with names are merged by them where ``keyed``, as server-side apply does."""
    if keyed and isinstance(before, list) and all(isinstance(each, dict) and "name" in each for each in before):
        named = {each["name"]: each for each in before}
        return [_merged(named.get(each["name"], {}), each, keyed=True) for each in change]
    if not isinstance(change, dict):
        return change
    result = before if isinstance(before, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value, keyed=keyed)
    return result
