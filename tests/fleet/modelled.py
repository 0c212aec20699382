"""The model of Karmada's controllers on a real API server, with an agent for each real member.

An agent does what Karmada's execution and status controllers do: it applies Works to the API server of the member,
deletes what a deleted Work applied, and then removes the finalizer of the Work. It reflects the status kind by kind,
and writes the condition Ready of the Cluster.
"""

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import urllib3
from e2e.api import Api, RefusedError
from e2e.control_plane import ControlPlane
from e2e.karmada import install_clusters
from fleet.member import KINDS, ROOM, SPACE, Member
from karmada_model.model import ALL, KarmadaModel, Settings
from karmada_model.objects import ServedObjects, stamp
from karmada_model.works import TEMPLATE_GENERATION
from kube_store import JSON

from berthmaster.kube.http_client import load_client
from berthmaster.runtime.clock import SystemClock

TURN_S: Final = 0.5
DETECT_S: Final = 20.0
"""How long a member does not answer until its Cluster is not ready."""
_REFLECTED: Final[Mapping[str, tuple[str, ...]]] = {
    "Deployment": (
        "replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas", "observedGeneration"
    ),
    "StatefulSet": ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "currentReplicas"),
    "DaemonSet": ("desiredNumberScheduled", "updatedNumberScheduled", "numberReady", "observedGeneration"),
    "Job": ("active",),
}  # fmt: skip
"""The fields of the status that Karmada reflects. It reports no observedGeneration of a StatefulSet."""
_HEALTH: Final[Mapping[str, tuple[str, str]]] = {
    "Deployment": ("updatedReplicas", "availableReplicas"),
    "StatefulSet": ("updatedReplicas", "availableReplicas"),
    "DaemonSet": ("updatedNumberScheduled", "numberAvailable"),
}
"""The fields that say how many pods are updated and available. A kind without them is healthy once it is applied."""


class Modelled:
    """The controllers in a thread, and an agent for each member. It implements ``Driver``."""

    real = False

    def __init__(self, plane: ControlPlane, definitions: Callable[[ControlPlane], object]) -> None:
        """Start the controllers. ``definitions`` installs Karmada's CustomResourceDefinitions."""
        self._plane = plane
        definitions(plane)
        install_clusters(plane.api)
        plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karmada-cluster"}})
        self._end = threading.Event()
        self.problems: list[str] = []
        self._model = self._new_model()
        self._threads: list[threading.Thread] = []
        self._run(self._turn)

    def join(self, member: Member) -> None:
        secret, cluster = member.joined()
        name = member.name
        for each in (secret, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"karmada-es-{name}"}}):
            self._plane.api.create(each)
        member.plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
        self._plane.api.create(cluster)
        host = Api(self._plane.kubeconfig, self._plane.processes.folder / f"discovery-{name}.json")
        self._run(_Agent(member, host, cluster).turn)

    def kill(self, *_flags: str) -> None:
        self._model = self._new_model()

    def restart(self) -> None:
        self._model = self._new_model()

    def admitted(self, policy: JSON) -> JSON:
        label = "propagationpolicy.karmada.io/permanent-id"
        metadata = policy["metadata"]
        return {**policy, "metadata": {**metadata, "labels": {label: f"id-of-{metadata['name']}"}}}

    def close(self) -> None:
        self._end.set()
        for each in self._threads:
            each.join(timeout=3.0)

    def _new_model(self) -> KarmadaModel:
        objects = ServedObjects(load_client(self._plane.kubeconfig, None))
        only = tuple(each for each in ALL if each != "members")
        return KarmadaModel(objects, SystemClock(), Settings(status_delay_s=1.0), only=only)

    def _turn(self) -> None:
        self._model.settle()

    def _run(self, turn: Callable[[], None]) -> None:
        def loop() -> None:
            while not self._end.wait(TURN_S):
                try:
                    turn()
                except Exception as error:  # noqa: BLE001 - as a controller, it tries again
                    self.problems.append(repr(error))

        self._threads.append(threading.Thread(target=loop, daemon=True))
        self._threads[-1].start()


class _Agent:
    """Karmada's execution and status controllers for one member."""

    def __init__(self, member: Member, host: Api, cluster: JSON) -> None:
        self._member, self._host, self._cluster = member, host, cluster
        self._applied: dict[str, JSON] = {}
        self._answered_s = time.monotonic()
        self._ready = "True"

    def turn(self) -> None:
        answers = self._member.plane.text("/readyz") == "ok"
        now_s = time.monotonic()
        if answers:
            self._answered_s = now_s
        ready = "True" if answers else "Unknown" if now_s > self._answered_s + DETECT_S else self._ready
        if ready != self._ready:
            self._ready = ready
            conditions = [_condition("Ready", ready, "Asked", stamp(datetime.now(UTC)))]
            self._host.patch(self._cluster, {"status": {"conditions": conditions}}, subresource="status")
        if answers:
            self._join()
            for work in self._host.list("work.karmada.io/v1alpha1", "Work", f"karmada-es-{self._member.name}"):
                try:
                    self._work(work)
                except (RefusedError, urllib3.exceptions.HTTPError):
                    continue  # the next turn tries again

    def _join(self) -> None:
        cluster = self._cluster
        if self._host.exists(cluster) and "resourceSummary" not in self._host.get(cluster).get("status", {}):
            self._host.patch(cluster, {"status": _joined()}, subresource="status")

    def _work(self, work: JSON) -> None:
        manifest, name = work["spec"]["workload"]["manifests"][0], work["metadata"]["name"]
        member = self._member.plane.api
        if "deletionTimestamp" in work["metadata"]:
            if member.exists(manifest):
                member.delete(manifest)
            self._applied.pop(name, None)
            self._host.patch(work, {"metadata": {"finalizers": None}})
            return
        if self._applied.get(name) != manifest:
            member.apply(manifest, manager="karmada")
            self._applied[name] = manifest
        status = _status(work, member.get(manifest))
        if status != {key: work.get("status", {}).get(key) for key in status}:
            self._host.patch(work, {"status": status}, subresource="status")


def _joined() -> JSON:
    """Return the status of a Cluster that has just joined."""
    return {
        "apiEnablements": [
            {"groupVersion": version, "resources": [{"name": f"{kind.lower()}s", "kind": kind}]}
            for kind, version in KINDS.items()
        ],
        "resourceSummary": {"allocatable": ROOM},
        "conditions": [_condition("Ready", "True", "Joined", stamp(datetime.now(UTC)))],
    }


def _status(work: JSON, found: JSON) -> JSON:
    known = next((each for each in work.get("status", {}).get("conditions") or () if each["type"] == "Applied"), None)
    at = known["lastTransitionTime"] if known is not None else stamp(datetime.now(UTC))
    group, _, version = found["apiVersion"].rpartition("/")
    status, metadata, kind = found.get("status", {}), found["metadata"], found["kind"]
    reflected = {field: status[field] for field in _REFLECTED[kind] if status.get(field)}
    if kind in _HEALTH:
        reflected["generation"] = metadata["generation"]
        reflected["resourceTemplateGeneration"] = int(metadata.get("annotations", {}).get(TEMPLATE_GENERATION, 0))
    entry = {
        "identifier": {
            "ordinal": 0, "group": group, "version": version, "kind": kind, "resource": f"{kind.lower()}s",
            "namespace": metadata["namespace"], "name": metadata["name"],
        },
        "status": reflected,
        "health": "Healthy" if _is_healthy(found) else "Unhealthy",
    }  # fmt: skip
    return {"conditions": [_condition("Applied", "True", "AppliedSuccessful", at)], "manifestStatuses": [entry]}


def _is_healthy(found: JSON) -> bool:
    fields, status = _HEALTH.get(found["kind"]), found.get("status", {})
    if fields is None:
        return True
    updated, available = (status.get(field, 0) for field in fields)
    wanted = status.get("desiredNumberScheduled", found["spec"].get("replicas", 1))
    return bool(status.get("observedGeneration") == found["metadata"]["generation"] and available >= updated >= wanted)


def _condition(kind: str, status: str, reason: str, at: str) -> JSON:
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": at}
