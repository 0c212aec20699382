"""The preemption controller on an API server in memory. The test's thread does all work."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec
from fake_clock import FakeClock
from fake_metrics import Counted
from faults import Fault, only, refuse
from kube_in_memory import KubeInMemory
from kube_store import JSON

from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.preemption.policy_index import NamedKind
from berthmaster.controllers.preemption.reconciler import PreemptionController, controller
from berthmaster.controllers.settings import ControllerSettings
from berthmaster.deciding.decision_recorder import DecisionRecorder
from berthmaster.kube.events import EventContent
from berthmaster.kube.kinds import POLICIES_BY_KIND
from berthmaster.model.note import Note
from berthmaster.model.priority_drops import PRIORITY_DROP_ANNOTATION

P, C = "propagationpolicy.karmada.io/", "clusterpropagationpolicy.karmada.io/"
API = "policy.karmada.io/v1alpha1"
WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
READER = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "reader"}
MAX_WORK = 10_000


class Recording:
    """Records events, and the results of takeovers in the order of the alphabet."""

    def __init__(self) -> None:
        self.events: list[EventContent] = []
        self._counted = Counted("policy_preemption_total")

    @property
    def preemptions(self) -> list[str]:
        return sorted(self._counted.results.elements())

    def record(self, event: EventContent) -> None:
        self.events.append(event)


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
    """Return a stored policy. Its permanent id is ``id-NAME`` by default; an empty id means no id."""
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
    """Return a resource that a policy claims, as the detector writes it."""
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
    """Return the name of the policy that claims a stored resource. Two claims are joined by a slash."""
    annotations = stored["metadata"].get("annotations", {})
    return "/".join(annotations[key] for key in (f"{P}name", f"{C}name") if key in annotations)


def an_api() -> KubeInMemory:
    """Return an API server that serves policies and two kinds of resources."""
    api = KubeInMemory()
    api.served.add(API, "PropagationPolicy", "propagationpolicies")
    api.served.add(API, "ClusterPropagationPolicy", "clusterpropagationpolicies", namespaced=False)
    api.served.add("apps/v1", "Deployment", "deployments")
    api.served.add("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", namespaced=False)
    return api


class Notes(list[Note]):
    """A ledger that keeps what it gets."""

    noted = list.append


class Stage:
    """The controller and its environment.

    Attributes:
        api: the API server.
        clock: a clock that the test sets.
        recorder: the recorded events and counts.
        ledger: the records of the ledger.
        controller: its workers are not started.
    """

    def __init__(self, *stored: JSON, api: KubeInMemory | None = None) -> None:
        self.api = api or an_api()
        self.clock = FakeClock()
        self.recorder = Recording()
        self.ledger = Notes()
        self.context = ControllerContext(
            self.api, self.clock, self.recorder, decisions=cast("DecisionRecorder", self.ledger)
        )
        self.controller = cast("PreemptionController", controller(self.context, ControllerSettings()))
        self.queue = self.controller.queue
        for each in stored:
            self.put(each)

    def put(self, manifest: JSON, *, observed: bool = True) -> JSON:
        """Store an object. The controller observes it if it is a policy."""
        stored = self.api.put(self.api.served.path(manifest), manifest)
        if observed and stored["kind"] in POLICIES_BY_KIND:
            self.observe(stored)
        return stored

    def observe(self, stored: JSON) -> None:
        metadata = stored["metadata"]
        raw = msgspec.Raw(msgspec.json.encode(stored))
        self._informer(stored).put((metadata.get("namespace", ""), metadata["name"]), raw)

    def get(self, manifest: JSON) -> JSON | None:
        return self.api.get(self.api.served.path(manifest))

    def remove(self, manifest: JSON, *, observed: bool = True) -> None:
        """Delete a policy. The controller observes the deletion."""
        self.api.remove(self.api.served.path(manifest))
        if observed:
            self.forget(manifest)

    def forget(self, manifest: JSON) -> None:
        """Let the controller observe the deletion of a policy."""
        self._informer(manifest).delete((manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]))

    def enqueue(self, *keys: Any) -> None:
        """Enqueue keys, as a watch of resources does."""
        for key in keys:
            self.queue.add(key)

    def clear_queue(self) -> list[Any]:
        """Empty the queue, so that a test knows what enqueues a key again. Return the keys that were ready."""
        keys: list[Any] = list(iter(lambda: self.queue.take(wait=False), None))
        for key in keys:
            self.queue.done(key)
        return keys

    def work(self, *, watching: bool = False) -> list[str]:
        """Reconcile all due keys. Return the results. Keys of kinds are skipped unless ``watching``."""
        results: list[str] = []
        while len(results) < MAX_WORK:
            if (key := self.queue.take(wait=False)) is None:
                return results
            if watching or not isinstance(key, NamedKind):
                results.append(self.controller.reconcile(key))
                assert results[-1] != "crash", "the log says why"
            self.queue.done(key)
        raise AssertionError("the queue does not become empty")

    def later(self, seconds: float = 60.0) -> list[str]:
        self.clock.pass_by(seconds)
        return self.work()

    def policies(self) -> list[JSON]:
        return [each for kind in POLICIES_BY_KIND.values() for each in self.api.all(kind.collection.path)]

    def web(self) -> JSON:
        found = self.get(template())
        assert found is not None
        return found

    def takeovers(self) -> int:
        return sum(not request.path.startswith(f"/apis/{API}/") for request in self.api.writes())

    def _informer(self, manifest: JSON) -> Any:
        watched = POLICIES_BY_KIND[manifest["kind"]]
        return self.context.informer(watched.collection, watched.read)


def refusing(status: int, *, times: int = 1, method: str = "PATCH", part: str = "") -> Fault:
    """Return a fault that refuses the first requests with a method and a part of the path."""
    return only(refuse(status), method, part=part, times=times)
