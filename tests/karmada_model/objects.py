"""The objects that the model reads and writes: of an API server in memory, or of a real one.

Reads see the latest state. ``news`` returns what changed since its last call, as the watches of controllers do.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol

from kube_in_memory import KubeInMemory
from kube_store import JSON, copied

from berthmaster.kube.client import APIClient, ask, ask_if_found
from berthmaster.kube.requests import APIRequest, Collection, create, delete, get, replace
from berthmaster.model.errors import ApiError

CONFLICTS: Final = 20
"""How often a write to a real API server is tried again after a conflict."""


SERVED: Final = {
    ("cluster.karmada.io/v1alpha1", "Cluster"): "clusters",
    ("work.karmada.io/v1alpha1", "Work"): "works",
    ("work.karmada.io/v1alpha2", "ResourceBinding"): "resourcebindings",
    ("policy.karmada.io/v1alpha1", "PropagationPolicy"): "propagationpolicies",
    ("apps.karmada.io/v1alpha1", "WorkloadRebalancer"): "workloadrebalancers",
    ("apps/v1", "Deployment"): "deployments",
    ("apps/v1", "StatefulSet"): "statefulsets",
    ("apps/v1", "DaemonSet"): "daemonsets",
    ("batch/v1", "Job"): "jobs",
}
"""The kinds of a real API server that the model reads, with their plural names."""


class Ident(NamedTuple):
    """An object. ``namespace`` is empty for a cluster-scoped object."""

    api_version: str
    kind: str
    namespace: str
    name: str


class News(NamedTuple):
    """A change of an object. ``before`` is None for a new object, ``after`` for a deleted one. Both are read-only."""

    before: JSON | None
    after: JSON | None

    @property
    def latest(self) -> JSON:
        """The object after the change, or as it was when it was deleted."""
        found = self.after if self.after is not None else self.before
        assert found is not None
        return found


def ident(manifest: Mapping[str, Any]) -> Ident:
    """Return the identity of a manifest, or of an object reference such as ``spec.resource``."""
    named = manifest.get("metadata", manifest)
    return Ident(manifest["apiVersion"], manifest["kind"], named.get("namespace", ""), named["name"])


def stamp(moment: datetime) -> str:
    """Format a time as Kubernetes does."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class Objects(Protocol):
    """What the model needs of an API server. Nothing may mutate a returned object."""

    def news(self) -> Sequence[News]:
        """Return the changes since the last call, in order."""

    def get(self, which: Ident) -> JSON | None:
        """Return an object, or None."""

    def all(self, kind: str) -> Iterator[JSON]:
        """Iterate over the objects of a kind."""

    def create(self, manifest: JSON) -> None:
        """Create an object, unless it exists."""

    def change(self, which: Ident, mutate: Callable[[JSON], object], *, status: bool = False) -> bool:
        """Change an object, or only its status. Return whether it existed and changed."""

    def delete(self, which: Ident) -> None:
        """Delete an object, if it exists."""


class ObjectsInMemory:
    """The objects of an API server in memory. Its faults do not affect them. It implements ``Objects``."""

    def __init__(self, api: KubeInMemory, now: Callable[[], datetime]) -> None:
        self._api = api
        self._now = now
        self._seen = 0
        self._news: list[News] = []
        self._known: dict[str, dict[Ident, JSON]] = {}

    def news(self) -> Sequence[News]:
        self._sync()
        found, self._news = self._news, []
        return found

    def get(self, which: Ident) -> JSON | None:
        self._sync()
        return self._known.get(which.kind, {}).get(which)

    def all(self, kind: str) -> Iterator[JSON]:
        self._sync()
        return iter(list(self._known.get(kind, {}).values()))

    def create(self, manifest: JSON) -> None:
        path = self._api.served.path(manifest)
        if self._api.get(path) is None:
            metadata = {**manifest["metadata"], "creationTimestamp": stamp(self._now())}
            self._api.put(path, {**manifest, "metadata": metadata})

    def change(self, which: Ident, mutate: Callable[[JSON], object], *, status: bool = False) -> bool:
        with self._api.changed:
            found = self.get(which)
            if found is None:
                return False
            after = copied(found)
            mutate(after)
            if after == found:
                return False
            assert not status or {**after, "status": 0} == {**found, "status": 0}, "only the status may change"
            self._api.put(self._path(which), after)
            return True

    def delete(self, which: Ident) -> None:
        with self._api.changed:
            if self.get(which) is not None:
                self._api.delete(self._path(which), stamp(self._now()))

    def _path(self, which: Ident) -> str:
        return self._api.served.path(
            {
                "apiVersion": which.api_version,
                "kind": which.kind,
                "metadata": {"namespace": which.namespace, "name": which.name},
            }
        )

    def _sync(self) -> None:
        with self._api.changed:
            fresh = self._api.changes[self._seen :]
            self._seen += len(fresh)
        for change in fresh:
            content = change.content
            if "kind" not in content:
                continue
            known = self._known.setdefault(content["kind"], {})
            which = ident(content)
            before = known.get(which)
            after = None if change.kind == "DELETED" else content
            if after is None:
                known.pop(which, None)
            else:
                known[which] = after
            self._news.append(News(before, after) if after is not None else News(content, None))


class ServedObjects:
    """The objects of a real API server, by an ``APIClient``. It implements ``Objects``.

    ``news`` lists all kinds. Reads in between see that list and the own writes.
    """

    def __init__(self, client: APIClient, kinds: Mapping[tuple[str, str], str] = SERVED) -> None:
        """Make it. ``kinds`` maps apiVersion and kind to the plural name."""
        self._client = client
        self._collections = {kind: Collection.of(kind[0], plural) for kind, plural in kinds.items()}
        self._known: dict[Ident, JSON] = {}
        self._reported: dict[Ident, JSON] = {}

    def news(self) -> Sequence[News]:
        self._known = {ident(each): each for each in self._listed()}
        found: list[News] = [
            News(self._reported.get(which), after)
            for which, after in self._known.items()
            if _version(after) != _version(self._reported.get(which))
        ]
        found += [News(before, None) for which, before in self._reported.items() if which not in self._known]
        self._reported = dict(self._known)
        return found

    def get(self, which: Ident) -> JSON | None:
        return self._known.get(which)

    def all(self, kind: str) -> Iterator[JSON]:
        return iter([each for which, each in self._known.items() if which.kind == kind])

    def create(self, manifest: JSON) -> None:
        which = ident(manifest)
        try:
            self._remember(which, ask(self._client, create(self._collection(which), which.namespace, manifest)))
        except ApiError as error:
            if error.status != 409:
                raise

    def change(self, which: Ident, mutate: Callable[[JSON], object], *, status: bool = False) -> bool:
        for _ in range(CONFLICTS):
            raw = ask_if_found(self._client, get(self._collection(which), which[2:]))
            if raw is None:
                self._known.pop(which, None)
                return False
            found, after = json.loads(raw), json.loads(raw)
            mutate(after)
            if after == found:
                return False
            try:
                request = replace(self._collection(which), which[2:], after, "status" if status else "")
                self._remember(which, ask(self._client, request))
            except ApiError as error:
                if not error.conflict:
                    raise
            else:
                return True
        raise AssertionError(f"{which} changes all the time")

    def delete(self, which: Ident) -> None:
        try:
            ask(self._client, delete(self._collection(which), which[2:]))
        except ApiError as error:
            if not error.not_found:
                raise

    def _collection(self, which: Ident) -> Collection:
        return self._collections[which.api_version, which.kind]

    def _remember(self, which: Ident, raw: bytes) -> None:
        self._known[which] = json.loads(raw)

    def _listed(self) -> Iterator[JSON]:
        for (api_version, kind), collection in self._collections.items():
            raw = ask_if_found(self._client, APIRequest(collection.path))
            for item in json.loads(raw or b"{}").get("items", []):
                yield {**item, "apiVersion": api_version, "kind": kind}


def _version(content: JSON | None) -> str:
    return content["metadata"]["resourceVersion"] if content is not None else ""
