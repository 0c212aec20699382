"""A real control plane: etcd and kube-apiserver as processes on loopback, kube-scheduler on demand.

There is no controller manager, so nothing empties a deleted namespace or makes pods from Deployments. There
is no kubelet either: nodes are made by hand.
"""

import json
import os
import shutil
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml
from e2e.api import Api, Manifest
from e2e.assets import MissingAssetError, binary
from e2e.certificates import Authority
from e2e.processes import Process, Processes, wait_for
from tables import data

HOST: Final = "127.0.0.1"
START_LIMIT_S: Final = 60.0
PROBE_LIMIT_S: Final = 5.0
AUDITED_GROUPS: Final = ("policy.karmada.io", "apps.karmada.io", "core.kubeadmiral.io")
OBSERVED: Final = "berthmaster-e2e:observed"
"""The group of users whose rights a test checks."""
AUDITED_USERS: Final = ("system:serviceaccounts", OBSERVED)
"""Groups whose requests are all audited, to see which rights they use and which they miss."""
_WRITES: Final = ("create", "update", "patch", "delete")
ADMIN: Final = "system:masters"  # the group that RBAC lets do everything


def crd_folder(environment: Mapping[str, str] = os.environ) -> Path:
    beside = Path(__file__).parents[2].parent / "shared" / "crds"
    folder = Path(environment.get("BERTHMASTER_CRDS") or beside)
    if not any(folder.rglob("*.yaml")):
        advice = "BERTHMASTER_CRDS names another folder, as charts/karmada/_crds/bases of Karmada's checkout"
        raise MissingAssetError(f"no custom resource definitions in {folder}: {advice}")
    return folder


def definitions(folder: Path) -> list[dict[str, Any]]:
    """Every CustomResourceDefinition of a folder and those below it, in the order of the files' names."""
    texts = (path.read_text() for path in sorted(folder.rglob("*.yaml")))
    documents = (document for text in texts for document in yaml.safe_load_all(text))
    return [found for found in documents if found and found.get("kind") == "CustomResourceDefinition"]


class ControlPlane:
    """A ready API server, an administrator's client, and the parts to build more around it.

    Attributes:
        processes: its children; whatever else a test starts is put there too.
        authority: the authority of the API server and all its clients.
        url: where the API server answers.
        kubeconfig: a file with an administrator's access.
        etcd_url: where etcd answers.
        apiserver: the process of the API server.
        trust: the TLS context of an administrator.
        api: the administrator's client.
        hosts: the names in the certificate of the API server.
        service_accounts: whether a controller manager makes accounts for pods. Without, pods need none.
    """

    hosts: Sequence[str] = (HOST, "localhost", "kubernetes.default.svc")
    service_accounts = False

    def __init__(
        self, processes: Processes, audited: Sequence[str] = AUDITED_GROUPS, *, flags: Sequence[str] = ()
    ) -> None:
        """Start it.

        Args:
            processes: where its parts are put.
            audited: the API groups of which every write is put down in the audit log.
            flags: more options of kube-apiserver.
        """
        self.processes = processes
        self._audited = audited
        self._flags = tuple(flags)
        self._folder = processes.folder
        self.authority = Authority("berthmaster-e2e")
        self._write_certificates()
        self.etcd_url = f"http://{HOST}:{processes.ports.free()}"
        self.url = f"https://{HOST}:{processes.ports.free()}"
        self.kubeconfig = self._write_kubeconfig("admin")
        self.trust = ssl.create_default_context(cafile=str(self._file("ca.crt")))
        self.trust.load_cert_chain(self._file("admin.crt"), self._file("admin.key"))
        self._options = self._configuration()
        self._etcd = self._start_etcd()
        self.apiserver = self._start_apiserver()
        self.api = Api(self.kubeconfig, self._file("discovery.json"))

    def text(self, path: str) -> str | None:
        """The body an administrator GETs, as of ``/metrics``; None if there is no answer or an error."""
        return fetch(self.url + path, self.trust)

    def install(self, crds: Path) -> list[dict[str, Any]]:
        """Install the custom resource definitions of a folder, wait until all are served, and return them."""
        wanted = definitions(crds)
        for definition in wanted:
            self.api.create(definition)
        for definition in wanted:
            what = f"{definition['metadata']['name']} to be served"
            wait_for(what, partial(served, self.api, definition), START_LIMIT_S)
        return wanted

    def audit_annotations(self, target: Manifest) -> list[dict[str, str]]:
        """The audit annotations of each write to an object so far, in order."""
        wanted = (target["metadata"].get("namespace"), target["metadata"]["name"])
        about = ((event, event["objectRef"]) for event in self.audit_events())
        return [
            event.get("annotations", {})
            for event, thing in about
            if (thing.get("namespace"), thing.get("name")) == wanted
        ]

    def audit_events(self) -> list[dict[str, Any]]:
        """Every write to the audited groups that was answered so far, in order, as ``audit.k8s.io/v1`` Events."""
        return [
            event
            for event in self._logged()
            if event["verb"] in _WRITES and event["objectRef"].get("apiGroup") in self._audited
        ]

    def requests_of(self, user: str) -> list[dict[str, Any]]:
        """The requests of an audited user about objects, as audit events, oldest first."""
        return [event for event in self._logged() if event["user"]["username"] == user]

    def new_namespace(self, **labels: str) -> str:
        metadata = {"generateName": "e2e-", "labels": labels}
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        return str(self.api.create(manifest).object["metadata"]["name"])

    def user(self, name: str, rules: Sequence[tuple[Mapping[str, Any], str | None]], *, observed: bool = False) -> Path:
        """Create a kubeconfig of a user who has exactly the rights of some rules.

        Args:
            name: the user's; it must be unique.
            rules: each as a Role writes it, with the namespace it holds in, None for everywhere.
            observed: whether all requests are audited, see ``requests_of``.
        """
        pair = self.authority.issue(name, organization=OBSERVED if observed else "")
        pair.write(self._file(f"{name}.crt"), self._file(f"{name}.key"))
        for namespace in {namespace for _, namespace in rules}:
            prefix = "Cluster" if namespace is None else ""
            metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
            group = "rbac.authorization.k8s.io"
            role = {"apiVersion": f"{group}/v1", "kind": f"{prefix}Role", "metadata": metadata}
            self.api.create({**role, "rules": [dict(rule) for rule, where in rules if where == namespace]})
            self.api.create(
                {
                    **role,
                    "kind": f"{prefix}RoleBinding",
                    "roleRef": {"apiGroup": group, "kind": f"{prefix}Role", "name": name},
                    "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
                }
            )
        return self._write_kubeconfig(name)

    def restart_apiserver(self) -> None:
        """Kill the API server if it runs, and start it again; etcd keeps the data."""
        self.apiserver.kill()
        self.apiserver = self._start_apiserver()
        self.api.client.rest_client.pool_manager.clear()  # connections to the one that is gone

    def back_up(self) -> Path:
        """Copy the data of etcd, and return where the copy is. The API server is away for some seconds."""
        return self._without_etcd(lambda data, copy: shutil.copytree(data, copy, dirs_exist_ok=True))

    def restore(self) -> Path:
        """Bring back what ``back_up`` copied. All later writes are lost, and their versions are given again."""

        def replaced(data: Path, copy: Path) -> None:
            shutil.rmtree(data)
            shutil.copytree(copy, data)

        return self._without_etcd(replaced)

    def _without_etcd(self, change: Callable[[Path, Path], object]) -> Path:
        self.apiserver.kill()
        self._etcd.stop()
        copy = self._file("etcd-copy")
        change(self._file("etcd"), copy)
        self._etcd = self._start_etcd()
        self.restart_apiserver()
        return copy

    def start_scheduler(self, configuration: Mapping[str, Any]) -> Process:
        """Start a kube-scheduler and wait until it serves.

        Args:
            configuration: the part of a KubeSchedulerConfiguration the test is about (``profiles``,
                ``extenders``); the version, the client's access and leader election are filled in.

        Raises:
            MissingAssetError: there is no kube-scheduler.
            NotInTimeError: it did not start; the message shows its log.
        """
        port = self.processes.ports.free()
        file = self._file(f"scheduler-{port}.yaml")
        file.write_text(json.dumps({**self._options["scheduler"], **configuration}))
        options = [f"--config={file}", f"--secure-port={port}", *self._options["kube-scheduler"]]
        scheduler = self.processes.start("kube-scheduler", [binary("kube-scheduler"), *options])
        ready = f"https://{HOST}:{port}/readyz"
        scheduler.wait_for("to be ready", lambda: fetch(ready, self.trust) == "ok", START_LIMIT_S)
        return scheduler

    def _file(self, name: str) -> Path:
        return self._folder / name

    def _write_certificates(self) -> None:
        self._file("ca.crt").write_bytes(self.authority.certificate)
        for pair, name in (
            (self.authority.issue("kube-apiserver", hosts=self.hosts), "server"),
            (self.authority.issue("admin", organization=ADMIN), "admin"),
            (self.authority.issue("service-accounts"), "service-accounts"),
            (self.authority.issue("front-proxy-client"), "front-proxy"),
            (self.authority.issue("kube-apiserver-webhook-client"), "webhook-client"),
        ):
            pair.write(self._file(f"{name}.crt"), self._file(f"{name}.key"))

    def _write_kubeconfig(self, user: str) -> Path:
        """Create a kubeconfig with a client certificate of ``user``."""
        cluster = {"server": self.url, "certificate-authority": str(self._file("ca.crt"))}
        certificate, key = self._file(f"{user}.crt"), self._file(f"{user}.key")
        access = {"client-certificate": str(certificate), "client-key": str(key)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": cluster}],
            "users": [{"name": user, "user": access}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": user}}],
            "current-context": "e2e",
        }
        path = self._file(f"{user}.kubeconfig")
        path.write_text(json.dumps(content, indent=1))
        return path

    def _logged(self) -> list[dict[str, Any]]:
        whole, _, _ = self._file("audit.jsonl").read_text().rpartition("\n")  # the last one may be half written
        return [event for event in map(json.loads, whole.splitlines()) if "objectRef" in event]

    def _configuration(self) -> dict[str, Any]:
        """Return the options of the processes, after the files that they name are written."""
        found: dict[str, Any] = data(
            "control_plane",
            host=HOST, folder=self._folder, etcd=self.etcd_url, url=self.url, port=self.url.rpartition(":")[2],
            peers=f"http://{HOST}:{self.processes.ports.free()}", writes=json.dumps(_WRITES),
            audited=json.dumps([{"group": each} for each in self._audited]), audited_users=json.dumps(AUDITED_USERS),
        )  # fmt: skip
        for name, content in found["files"].items():
            self._file(name).write_text(json.dumps(content))
        return found

    def _start_etcd(self) -> Process:
        etcd = self.processes.start("etcd", [binary("etcd"), *self._options["etcd"]])
        healthy = f"{self.etcd_url}/health"
        etcd.wait_for("to be healthy", lambda: "true" in (fetch(healthy) or ""), START_LIMIT_S)
        return etcd

    def _start_apiserver(self) -> Process:
        accounts = () if self.service_accounts else ("--disable-admission-plugins=ServiceAccount",)
        command = [binary("kube-apiserver"), *self._options["kube-apiserver"], *accounts, *self._flags]
        apiserver = self.processes.start("kube-apiserver", command)
        apiserver.wait_for("to be ready", lambda: self.text("/readyz") == "ok", START_LIMIT_S)
        return apiserver


def served(api: Api, definition: Mapping[str, Any]) -> bool:
    """Whether the API server serves what a definition defines, and lists it. Its list changes a moment later."""
    conditions = {one["type"]: one for one in api.get(definition).get("status", {}).get("conditions") or []}
    for wanted in ("NamesAccepted", "Established"):
        condition = conditions.get(wanted, {"status": "Unknown", "message": "no condition yet"})
        assert condition["status"] == "True", f"{wanted} is {condition['status']}: {condition['message']}"
    spec = definition["spec"]
    versions = (f"{spec['group']}/{each['name']}" for each in spec["versions"] if each["served"])
    return all(api.lists(each, spec["names"]["kind"]) for each in versions)


def fetch(url: str, trust: ssl.SSLContext | None = None) -> str | None:
    """The body of a GET; None if there is no answer or an error."""
    try:
        with urllib.request.urlopen(url, timeout=PROBE_LIMIT_S, context=trust) as response:
            return str(response.read().decode())
    except (OSError, urllib.error.URLError):
        return None
