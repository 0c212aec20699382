"""The store of an API server: objects by path with versions, uids and generations, and the history of changes."""

import json
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Self

import jsonpatch
import msgspec

from berthmaster.kube.requests import APIRequest

JSON = dict[str, Any]
APPLY: Final = "application/apply-patch+yaml"
_MERGE_PATCH: Final = "application/merge-patch+json"
_JSON_PATCH: Final = "application/json-patch+json"
_PATH = re.compile(
    r"(?P<root>/api/[^/]+|/apis/[^/]+/[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"(?:/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<subresource>[^/]+))?)?)?"
)


class Place(NamedTuple):
    """What a path names: a group version, a collection, an object, or a subresource.

    Attributes:
        root: the path of the group version.
        namespace: empty for none or for all.
        plural: the kind; empty for the group version itself.
        name: the object; empty for the collection.
        subresource: the subresource of the object; empty for the object itself.
    """

    root: str
    namespace: str
    plural: str
    name: str
    subresource: str

    @classmethod
    def of(cls, path: str) -> Self:
        match = _PATH.fullmatch(path)
        assert match, f"no API server serves {path}"
        return cls(**match.groupdict(""))

    def holds(self, path: str) -> bool:
        other = Place.of(path)
        return (self.root, self.plural) == (other.root, other.plural) and self.namespace in ("", other.namespace)


class Change(NamedTuple):
    """A change of an object, as watches report it."""

    kind: str
    path: str
    content: JSON


def copied(value: Any) -> Any:
    """Return a copy of a JSON value, many times faster than ``copy.deepcopy``."""
    return msgspec.to_builtins(value)


class KubeStore:
    """The stored objects. Tests change them here without the checks of the API. Safe for several threads.

    Attributes:
        objects: the objects by path. A direct write here is not reported to watches.
        changes: the history. Each change makes one version; the first one makes version 1.
        changed: notified of each change; its lock guards everything here.
        on_change: called for each change before all watches, with the lock held.
    """

    def __init__(self) -> None:
        self.objects: dict[str, JSON] = {}
        self.changes: list[Change] = []
        self.changed = threading.Condition()
        self.on_change: Callable[[Change], object] = lambda _: None

    @property
    def version(self) -> int:
        return len(self.changes)

    def get(self, path: str) -> JSON | None:
        """Return a copy of an object; None if there is none."""
        with self.changed:
            return copied(self.objects.get(path))

    def all(self, collection: str) -> list[JSON]:
        """Return copies of the objects of a collection, or of one namespace of it, ordered by path."""
        place = Place.of(collection)
        with self.changed:
            return [copied(self.objects[path]) for path in sorted(self.objects) if place.holds(path)]

    def put(self, path: str, content: Mapping[str, Any]) -> JSON:
        """Create or replace an object, status included. Return it as stored.

        An existing object keeps its uid unless ``content`` has one. Its generation is continued.
        An object that is being deleted goes with its last finalizer.
        """
        with self.changed:
            place, before, after = Place.of(path), self.objects.get(path), dict(copied(content))
            known = before["metadata"] if before else {}
            metadata = after["metadata"] = dict(after.get("metadata", {}))
            metadata["resourceVersion"] = str(self.version + 1)
            metadata.setdefault("name", place.name)
            metadata.setdefault("uid", known.get("uid", f"uid-{self.version + 1}"))
            if place.namespace:
                metadata.setdefault("namespace", place.namespace)
            if before:
                marked = "deletionTimestamp" in metadata and "deletionTimestamp" not in known
                metadata["generation"] = known["generation"] + (marked or _desired(before) != _desired(after))
            else:
                metadata.setdefault("generation", 1)
            self.objects[path] = after
            if "deletionTimestamp" in metadata and known.get("finalizers") and not metadata.get("finalizers"):
                self.remove(path)
                return copied(after)
            self._append(Change("MODIFIED" if before else "ADDED", path, after))
            return copied(after)

    def edit(self, path: str, **patch: Any) -> JSON:
        """Merge a patch into an object, as another client would. Return it as stored."""
        with self.changed:
            return self.put(path, merged(self.objects[path], patch))

    def change(self, path: str, mutate: Callable[[JSON], object]) -> JSON:
        """Mutate an object, as another client would. Return it as stored."""
        with self.changed:
            content = copied(self.objects[path])
            mutate(content)
            return self.put(path, content)

    def delete(self, path: str, at: str) -> None:
        """Delete an object as a client does: with finalizers it stays, marked with a time, until they are gone."""
        with self.changed:
            metadata = self.objects[path]["metadata"]
            if not metadata.get("finalizers"):
                self.remove(path)
            elif "deletionTimestamp" not in metadata:
                self.edit(path, metadata={"deletionTimestamp": at})

    def remove(self, path: str) -> None:
        """Remove an object at once."""
        with self.changed:
            gone = self.objects.pop(path)
            metadata = {**gone["metadata"], "resourceVersion": str(self.version + 1)}
            self._append(Change("DELETED", path, {**gone, "metadata": metadata}))

    def _append(self, change: Change) -> None:
        self.changes.append(change)
        self.on_change(change)
        self.changed.notify_all()


def patched(before: Any, request: APIRequest) -> Any:
    """Apply a patch of the kind that its content type says. Return the new object."""
    patch = json.loads(request.body)
    if request.content_type == _JSON_PATCH:
        return jsonpatch.apply_patch(copied(before), patch)
    assert request.content_type in (_MERGE_PATCH, APPLY), f"unexpected kind of patch: {request.content_type}"
    return merged(before, patch, keyed=request.content_type == APPLY)


def merged(before: Any, patch: Any, *, keyed: bool = False) -> Any:
    """Apply a JSON merge patch (RFC 7396) to a copy.

    ``keyed`` merges lists of objects with names by these names. Server-side apply does the same to such lists if all
    their elements belong to the same field manager.
    """
    if keyed and isinstance(before, list) and all(isinstance(each, dict) and "name" in each for each in before):
        named = {each["name"]: each for each in before}
        return [merged(named.get(each["name"], {}), each, keyed=True) for each in patch]
    if not isinstance(patch, dict):
        return patch
    after = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = merged(after.get(key), value, keyed=keyed)
    return after


def _desired(content: JSON) -> JSON:
    return {field: value for field, value in content.items() if field not in ("metadata", "status")}
