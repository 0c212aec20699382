"""A member cluster that runs pods: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok on loopback.

kwok plays the kubelet: it moves each pod from Pending to Ready, and removes deleted pods, after a delay.
"""

import http.client
import json
import secrets
import signal
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, Final

import yaml
from e2e.assets import binary
from e2e.control_plane import ADMIN, HOST, ControlPlane
from e2e.processes import Process, Processes
from kube_store import JSON

TOKEN: Final = secrets.token_hex()
"""The bearer token by which Karmada works in a member, as an administrator."""
SPACE: Final = "shop"
"""The namespace of all workloads."""
ROOM: Final = {"cpu": "8", "memory": "64Gi", "pods": "110"}
COUNT_LIMIT_S: Final = 1.0
KINDS: Final = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1"}
"""The kinds of workloads, and the API version of each."""
BESIDE: Final = {
    "Service": "v1", "PodDisruptionBudget": "policy/v1", "Ingress": "networking.k8s.io/v1",
    "ServiceExport": "multicluster.x-k8s.io/v1alpha1",
}  # fmt: skip
"""The kinds that stand beside workloads."""
_CONTROLLERS: Final = (
    "deployment-controller", "replicaset-controller", "statefulset-controller", "daemonset-controller",
    "job-controller", "namespace-controller", "garbage-collector-controller", "endpointslice-controller",
    "persistentvolume-binder-controller", "persistentvolumeclaim-protection-controller",
    "disruption-controller",
)  # fmt: skip
_HEALTHY: Final = """
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
podIP: {{ PodIPWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace | Quote }}
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "VALUE", lastTransitionTime: {{ $now | Quote }}}
- {type: Ready, status: "VALUE", lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: READY
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
"""


class Pods(Enum):
    """What kwok makes of the pods of a member."""

    NORMAL = "normal"
    SLOW = "slow"
    """A pod takes long until it is ready."""
    STUCK = "stuck"
    """No further pod becomes ready. Ready ones stay."""
    FAILING = "failing"
    """No pod is ready, not even those that were."""
    CRASHING = "crashing"
    """A pod becomes ready, fails some seconds later, and becomes ready again."""
    LINGERING = "lingering"
    """A deleted pod stays for its whole grace period."""


START_S: Final = {Pods.NORMAL: 2.0, Pods.SLOW: 25.0, Pods.LINGERING: 2.0, Pods.CRASHING: 4.0}
FAIL_S: Final = {Pods.FAILING: 0.5, Pods.CRASHING: 12.0}
STOP_S: Final = 2.0


def stages(pods: Pods, missing_images: Sequence[str] = (), *, jobs_finish: bool = False) -> str:
    """Return the stages of kwok.

    Args:
        pods: what it makes of pods.
        missing_images: pods with one of these images are never ready.
        jobs_finish: whether the pods of Jobs end well.
    """
    alive: JSON = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
    status = '.status.conditions.[] | select( .type == "Ready" ) | .status'
    gone = _stage("pod-gone", STOP_S, [{**alive, "operator": "Exists"}], finalizers={"empty": True}, delete=True)
    if pods is Pods.LINGERING:  # Kubernetes adds the grace period to this time
        gone["spec"]["delay"]["durationFrom"] = {"expressionFrom": ".metadata.deletionTimestamp"}
    found = [gone]
    if pods in START_S:
        waits = {"key": status, "operator": "NotIn", "values": ["True"]}
        unfinished = {"key": ".status.phase", "operator": "NotIn", "values": ["Succeeded"]}
        pulled = {"key": ".spec.containers.[].image", "operator": "NotIn", "values": list(missing_images)}
        starts = [alive, waits, unfinished, *([pulled] if missing_images else [])]
        found.append(_stage("pod-ready", START_S[pods], starts, statusTemplate=_status(ready=True)))
    if pods in FAIL_S:
        runs = {"key": status, "operator": "In", "values": ["True"]}
        found.append(_stage("pod-fails", FAIL_S[pods], [alive, runs], statusTemplate=_status(ready=False)))
    if jobs_finish:
        of_job = {"key": ".metadata.ownerReferences.[].kind", "operator": "In", "values": ["Job"]}
        runs = {"key": ".status.phase", "operator": "In", "values": ["Running"]}
        found.append(_stage("pod-done", STOP_S, [alive, of_job, runs], statusTemplate="phase: Succeeded"))
    return yaml.safe_dump_all(found)


def _stage(name: str, delay_s: float, expressions: list[JSON], **following: Any) -> JSON:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": expressions},
            "delay": {"durationMilliseconds": int(delay_s * 1000)},
            "next": following,
        },
    }


def _status(*, ready: bool) -> str:
    return _HEALTHY.replace("VALUE", str(ready)).replace("READY", str(ready).lower())


class Member:
    """A member cluster with one node.

    Attributes:
        name: the name of the cluster.
        plane: its API server.
        pods: what kwok makes of its pods.
    """

    controllers: Sequence[str] = _CONTROLLERS
    """The controllers of Kubernetes in it."""
    control_plane: type[ControlPlane] = ControlPlane
    missing_images: Sequence[str] = ()
    jobs_finish = False

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        folder.mkdir()
        self.processes = Processes(folder)
        try:
            tokens = folder / "tokens.csv"
            tokens.write_text(f'{TOKEN},karmada,karmada,"{ADMIN}"\n')
            self.plane = self.control_plane(self.processes, flags=[f"--token-auth-file={tokens}"])
            self._add_node()
            self._start_controllers()
            self._scheduler = self.plane.start_scheduler({})
            self.pods = Pods.NORMAL
            self._kwok = self._start_kwok()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.processes.stop_all()

    def joined(self) -> list[JSON]:
        """Return the manifests by which Karmada knows it: its Secret and its Cluster."""
        known = {"namespace": "karmada-cluster", "name": self.name}
        data = {"token": TOKEN.encode(), "caBundle": self.plane.authority.certificate}
        return [
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": known,
                "data": {key: b64encode(value).decode() for key, value in data.items()},
            },
            {
                "apiVersion": "cluster.karmada.io/v1alpha1",
                "kind": "Cluster",
                "metadata": {"name": self.name},
                "spec": {
                    "syncMode": "Push",
                    "apiEndpoint": self.plane.url,
                    "secretRef": known,
                    "impersonatorSecretRef": known,
                },
            },
        ]

    # What happens to it

    @property
    def up(self) -> bool:
        return self.plane.apiserver.running and not self._frozen

    _frozen = False

    def kill(self) -> None:
        """Kill its API server. Its pods stay, and cannot be seen."""
        self.plane.apiserver.kill()

    def freeze(self) -> None:
        """Stop its API server without closing its connections."""
        self._frozen = True
        self.plane.apiserver.ask_to_stop(signal.SIGSTOP)

    def recover(self) -> None:
        if self._frozen:
            self.plane.apiserver.ask_to_stop(signal.SIGCONT)
            self.plane.api.client.rest_client.pool_manager.clear()  # it closes connections that were idle
            self._frozen = False
        if not self.plane.apiserver.running:
            self.plane.restart_apiserver()
            # A garbage collector that missed the deletion of an object does not see that its successor is another one.
            # A scheduler that missed it ends with "Scheduler cache is corrupted".
            self._restart_controllers()

    def back_up(self) -> None:
        """Copy the data of its etcd. Its API server is away for some seconds."""
        self.plane.back_up()

    def restore(self) -> None:
        """Bring back what ``back_up`` copied, and restart all that watches its API server."""
        self.plane.restore()
        self._restart_controllers()
        self._kwok.kill()
        self._kwok = self._start_kwok()

    def cordon(self, *, on: bool) -> None:
        self.plane.api.patch(_node(self.name), {"spec": {"unschedulable": on or None}})

    def treat(self, pods: Pods) -> None:
        if pods is not self.pods:
            self.pods = pods
            self._kwok.kill()
            self._kwok = self._start_kwok()

    # How it starts

    def _add_node(self) -> None:
        node = _node(self.name)
        self.plane.api.create(node)
        self.plane.api.patch(node, {"spec": {"taints": None}})
        self.plane.api.patch(node, {"status": {"allocatable": ROOM, "capacity": ROOM}}, subresource="status")

    def _restart_controllers(self) -> None:
        self._controllers.kill()
        self._start_controllers()
        self._scheduler.kill()
        self._scheduler = self.plane.start_scheduler({})

    def _start_controllers(self) -> None:
        self._controllers = start_controller_manager(self.processes, self.plane, self.controllers)

    def _start_kwok(self) -> Process:
        file = self.processes.folder / f"kwok-{self.pods.value}.yaml"
        file.write_text(stages(self.pods, self.missing_images, jobs_finish=self.jobs_finish))
        return self.processes.start("kwok", [
            binary("kwok"), f"--kubeconfig={self.plane.kubeconfig}", f"--config={file}", "--manage-all-nodes=true",
            "--node-lease-duration-seconds=0", f"--server-address={HOST}:{self.processes.ports.free()}",
        ])  # fmt: skip


def start_controller_manager(processes: Processes, plane: ControlPlane, controllers: Sequence[str]) -> Process:
    return processes.start("kube-controller-manager", [
        binary("kube-controller-manager"), f"--kubeconfig={plane.kubeconfig}",
        f"--controllers={','.join(controllers)}", "--leader-elect=false", "--secure-port=0",
        f"--root-ca-file={processes.folder / 'ca.crt'}",
        f"--service-account-private-key-file={processes.folder / 'service-accounts.key'}",
    ])  # fmt: skip


def _node(name: str) -> JSON:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}  # as kubelet labels it
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def volume(name: str) -> JSON:
    """Return a volume of a member that goes with its claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": "local",
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "hostPath": {"path": f"/volumes/{name}"},
        },
    }


@contextmanager
def refusing(member: Member, operation: str) -> Iterator[None]:
    """Let the API server of a member refuse an operation on Deployments: it asks a webhook that does not answer."""
    hook = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "refusing"},
        "webhooks": [
            {
                "name": "refusing.example.org",
                "clientConfig": {"url": f"https://{HOST}:1/"},
                "rules": [
                    {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"],
                     "operations": [operation]}
                ],
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }  # fmt: skip
    member.plane.api.create(hook)
    try:
        yield
    finally:
        member.plane.api.delete(hook)


def finish_pods(member: Member, app: str) -> None:
    """Let all pods of an application end well."""
    api = member.plane.api
    for pod in api.list("v1", "Pod", SPACE):
        if pod["metadata"]["labels"].get("app") == app:
            reference = {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]}
            api.patch(reference, {"status": {"phase": "Succeeded"}}, subresource="status")


def is_finished(job: JSON) -> bool:
    conditions = job.get("status", {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("Complete", "True") for each in conditions)


class Count:
    """Counts the pods of one member by application, straight from its API server.

    The name of an application has no hyphen, so it ends at the first hyphen of the name of a pod.
    """

    _PATH: Final = f"/api/v1/namespaces/{SPACE}/pods?resourceVersion=0&includeObject=None"

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._line: http.client.HTTPSConnection | None = None

    def take(self) -> tuple[dict[str, int], dict[str, int]] | None:
        """Return the ready pods, and all that are not gone; None if the API server does not answer."""
        try:
            table = self._table()
        except (OSError, http.client.HTTPException, ValueError):
            self.close()
            return None
        ready, there = Counter[str](), Counter[str]()
        for row in table.get("rows") or ():
            name, containers, status = row["cells"][:3]
            app = name.partition("-")[0]
            there[app] += 1
            done, _, wanted = str(containers).partition("/")
            ready[app] += done == wanted and status == "Running"
        return +ready, +there

    def close(self) -> None:
        """Close the connection. The next count opens another one."""
        if self._line is not None:
            self._line.close()
        self._line = None

    def _table(self) -> JSON:
        if self._line is None:
            address = self._plane.url.removeprefix("https://")
            self._line = http.client.HTTPSConnection(address, timeout=COUNT_LIMIT_S, context=self._plane.trust)
        self._line.request("GET", self._PATH, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"})
        answer = self._line.getresponse()
        content = json.loads(answer.read())
        if answer.status != http.client.OK:
            raise ValueError(f"the API server answered {answer.status}")
        return dict(content)
