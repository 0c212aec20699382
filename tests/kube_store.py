"""Objects as an API server keeps them: by path, each with a version, a uid and a generation, and what changed when."""

import threading
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from kube_paths import Place
from patches import merged

JSON = dict[str, Any]


class Change(NamedTuple):
    """What a watch tells."""

    kind: str
    path: str
    content: JSON


class KubeStore:
    """What is stored, and the back door to it: nothing here is guarded. Safe for several threads.

    Attributes:
        objects: by path. Whoever writes here directly tells no watch of it.
        changes: all there were. Each makes one version: the first one version 1.
        changed: notified of each change; its lock guards all of this.
        heard: told of each change before anybody else, under that lock.
    """

    def __init__(self) -> None:
        self.objects: dict[str, JSON] = {}
        self.changes: list[Change] = []
        self.changed = threading.Condition()
        self.heard: Callable[[Change], object] = lambda _: None

    @property
    def version(self) -> int:
        """The last one."""
        return len(self.changes)

    def get(self, path: str) -> JSON | None:
        """An object as it is stored; None if there is none."""
        with self.changed:
            return deepcopy(self.objects.get(path))

    def all(self, collection: str) -> list[JSON]:
        """All objects of a collection, or of one namespace of it, by their paths."""
        place = Place.of(collection)
        with self.changed:
            return [deepcopy(self.objects[path]) for path in sorted(self.objects) if place.holds(path)]

    def put(self, path: str, content: Mapping[str, Any]) -> JSON:
        """Store an object as it stands, status and all, new or in the place of what is there; as it is stored then.

        What is there keeps its uid unless another one is given; its generation goes on.
        """
        with self.changed:
            place, before, after = Place.of(path), self.objects.get(path), deepcopy(dict(content))
            known = before["metadata"] if before else {}
            metadata = after["metadata"] = dict(after.get("metadata", {}))
            metadata["resourceVersion"] = str(self.version + 1)
            metadata.setdefault("name", place.name)
            metadata.setdefault("uid", known.get("uid", f"uid-{self.version + 1}"))
            if place.namespace:
                metadata.setdefault("namespace", place.namespace)
            if before:
                metadata["generation"] = known["generation"] + (_wanted(before) != _wanted(after))
            else:
                metadata.setdefault("generation", 1)
            self.objects[path] = after
            self._tell(Change("MODIFIED" if before else "ADDED", path, after))
            return deepcopy(after)

    def edit(self, path: str, **patch: Any) -> JSON:
        """Merge something into an object, as somebody else would; as it is stored then."""
        with self.changed:
            return self.put(path, merged(self.objects[path], patch))

    def change(self, path: str, by_hand: Callable[[JSON], object]) -> JSON:
        """Have an object edited, as somebody else would; as it is stored then."""
        with self.changed:
            content = deepcopy(self.objects[path])
            by_hand(content)
            return self.put(path, content)

    def remove(self, path: str) -> None:
        """An object is gone."""
        with self.changed:
            gone = self.objects.pop(path)
            metadata = {**gone["metadata"], "resourceVersion": str(self.version + 1)}
            self._tell(Change("DELETED", path, {**gone, "metadata": metadata}))

    def _tell(self, change: Change) -> None:
        self.changes.append(change)
        self.heard(change)
        self.changed.notify_all()


def _wanted(content: JSON) -> JSON:
    return {field: value for field, value in content.items() if field not in ("metadata", "status")}
