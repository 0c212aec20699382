"""The preemption controller on an API server in memory, worked by hand: no thread but the test's."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

import msgspec
from faults import Fault, only, refuse
from kube_in_memory import KubeInMemory
from kube_scheduler_builders import HandClock
from kube_store import JSON

from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.preemption.policy_index import POLICIES, NamedKind
from berthmaster.controllers.preemption.reconciler import PreemptionController, controller
from berthmaster.kube.events import Reference
from berthmaster.model.claims import PRIORITY_DROP_ANNOTATION

P, C = "propagationpolicy.karmada.io/", "clusterpropagationpolicy.karmada.io/"
API = "policy.karmada.io/v1alpha1"
WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
READER = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "reader"}
MAX_WORK = 10_000


class Told(NamedTuple):
    """An event."""

    regarding: Reference
    kind: str
    reason: str
    action: str
    note: str
    related: Reference | None


class Notebook:
    """Keeps events and counts; a recorder and a meter."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.preemptions: list[str] = []
        self.results: list[tuple[str, str, float]] = []

    def record(self, *said: Any) -> None:
        self.told.append(Told(*said))

    def reconciled(self, *said: Any) -> None:
        self.results.append(said)

    def preempted(self, result: str) -> None:
        self.preemptions.append(result)


def policy(
    name: str,
    priority: int | None = None,
    *,
    always: bool = True,
    namespace: str = "default",
    cluster_scoped: bool = False,
    names: Iterable[Mapping[str, str]] = (WEB,),
    drop: str | None = None,
    permanent_id: str | None = None,
) -> JSON:
    """A policy as it is stored; its permanent id is ``id-NAME`` unless told, and none if it is empty."""
    given = f"id-{name}" if permanent_id is None else permanent_id
    where = {} if cluster_scoped else {"namespace": namespace}
    metadata: JSON = {"name": name, **where, "uid": f"uid-of-{name}"}
    if given:
        metadata["labels"] = {f"{C if cluster_scoped else P}permanent-id": given}
    if drop is not None:
        metadata["annotations"] = {PRIORITY_DROP_ANNOTATION: drop}
    selectors = [dict(each) for each in names]
    if cluster_scoped and selectors == [WEB]:
        selectors = [{**WEB, "namespace": "default"}]
    spec: JSON = {"resourceSelectors": selectors, "preemption": "Always" if always else "Never"}
    if priority is not None:
        spec["priority"] = priority
    kind = "ClusterPropagationPolicy" if cluster_scoped else "PropagationPolicy"
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}


def template(by: Mapping[str, Any] | None = None, of: Mapping[str, str] = WEB, **metadata: Any) -> JSON:
    """A resource that a policy claims, as the detector would have written it."""
    where = {} if of["kind"] == "ClusterRole" else {"namespace": "default"}
    labels: dict[str, str] = {"app": "web"}
    annotations: dict[str, str] = {}
    if by is not None:
        prefix = C if by["kind"] == "ClusterPropagationPolicy" else P
        labels[f"{prefix}permanent-id"] = f"id-{by['metadata']['name']}"
        annotations[f"{prefix}name"] = by["metadata"]["name"]
        if prefix == P:
            annotations[f"{P}namespace"] = by["metadata"]["namespace"]
    made = {"name": of["name"], **where, "labels": labels, "annotations": annotations, **metadata}
    return {"apiVersion": of["apiVersion"], "kind": of["kind"], "metadata": made}


def owner(stored: Mapping[str, Any]) -> str:
    """Who has a stored resource: the name of a policy; both with a slash between if it says both."""
    annotations = stored["metadata"].get("annotations", {})
    return "/".join(annotations[key] for key in (f"{P}name", f"{C}name") if key in annotations)


def an_api() -> KubeInMemory:
    """An API server with policies, and two kinds of resources."""
    api = KubeInMemory()
    api.served.add(API, "PropagationPolicy", "propagationpolicies")
    api.served.add(API, "ClusterPropagationPolicy", "clusterpropagationpolicies", namespaced=False)
    api.served.add("apps/v1", "Deployment", "deployments")
    api.served.add("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", namespaced=False)
    return api


class Stage:
    """The controller, and what it works on.

    Attributes:
        api: the API server.
        clock: stands still until a test moves it.
        notebook: what was told and counted.
        controller: ours; its workers are not started.
    """

    def __init__(self, *stored: JSON, api: KubeInMemory | None = None) -> None:
        self.api = api or an_api()
        self.clock = HandClock()
        self.notebook = Notebook()
        self.context = ControllerContext(self.api, self.clock, self.notebook, self.notebook)
        self.controller = cast("PreemptionController", controller(self.context))
        self.queue = self.controller.queue
        for each in stored:
            self.put(each)

    def put(self, manifest: JSON, *, heard: bool = True) -> JSON:
        """Store an object, and let the controller hear of it if it is a policy."""
        stored = self.api.put(self.api.served.path(manifest), manifest)
        if heard and stored["kind"] in POLICIES:
            self.hear(stored)
        return stored

    def hear(self, stored: JSON) -> None:
        """Let the controller hear of a policy."""
        metadata = stored["metadata"]
        raw = msgspec.Raw(msgspec.json.encode(stored))
        self._informer(stored).put((metadata.get("namespace", ""), metadata["name"]), raw)

    def get(self, manifest: JSON) -> JSON | None:
        """An object as it is stored; None if there is none."""
        return self.api.get(self.api.served.path(manifest))

    def remove(self, manifest: JSON, *, heard: bool = True) -> None:
        """A policy is gone, and the controller hears of it."""
        self.api.remove(self.api.served.path(manifest))
        if heard:
            self.forget(manifest)

    def forget(self, manifest: JSON) -> None:
        """Let the controller hear that a policy is gone."""
        self._informer(manifest).drop((manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]))

    def look(self, *subjects: Any) -> None:
        """Have something looked at, as a watch of resources would."""
        for subject in subjects:
            self.queue.add(subject)

    def overlook(self) -> None:
        """Forget what is to be looked at, so that a test knows what brings it up again."""
        with self.queue._changed:
            self.queue._ready.clear()
            self.queue._dirty.clear()

    def work(self, *, watching: bool = False) -> list[str]:
        """Work off what is due; how each piece went. Watches are passed over unless told."""
        results: list[str] = []
        while len(results) < MAX_WORK:
            with self.queue._changed:
                self.queue._promote()
                if not self.queue._ready:
                    return results
            key = self.queue.take()
            if watching or not isinstance(key, NamedKind):
                results.append(self.controller._reconcile(cast("Any", key)))
                assert results[-1] != "crash", "the log says why"
            self.queue.done(cast("Any", key))
        raise AssertionError("the work does not end")

    def later(self, seconds: float = 60.0) -> list[str]:
        """Let time pass, then work."""
        self.clock.seconds += seconds
        return self.work()

    def policies(self) -> list[JSON]:
        """The policies as they are stored."""
        return [each for kind in POLICIES.values() for each in self.api.all(kind.collection.path)]

    def web(self) -> JSON:
        """The deployment as it is stored."""
        found = self.get(template())
        assert found is not None
        return found

    def takeovers(self) -> int:
        """How many writes to resources the API server was asked for."""
        return sum(not request.path.startswith(f"/apis/{API}/") for request in self.api.writes())

    def _informer(self, manifest: JSON) -> Any:
        watched = POLICIES[manifest["kind"]]
        return self.context.informer(watched.collection, watched.read)


def refusing(status: int, *, times: int = 1, method: str = "PATCH", part: str = "") -> Fault:
    """An error to the first requests of a method whose path has a part."""
    return only(refuse(status), method, part=part, times=times)
