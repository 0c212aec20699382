"""A real control plane: etcd and kube-apiserver as processes on loopback, kube-scheduler on demand.

There is no controller manager, so nothing empties a deleted namespace or makes pods from Deployments. There
is no kubelet either: nodes are made by hand.
"""

import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml
from e2e.api import Api, Manifest
from e2e.assets import MissingAssetError, binary
from e2e.certificates import Authority
from e2e.processes import Process, Processes, wait_for

HOST: Final = "127.0.0.1"
SERVICE_RANGE: Final = "10.0.0.0/24"  # routed nowhere: the API server only wants to own one
START_LIMIT_S: Final = 60.0
PROBE_LIMIT_S: Final = 5.0
AUDITED_GROUPS: Final = ("policy.karmada.io", "apps.karmada.io", "core.kubeadmiral.io")
OBSERVED: Final = "berthmaster-e2e:observed"
"""The group of users whose rights a test checks."""
AUDITED_USERS: Final = ("system:serviceaccounts", OBSERVED)
"""Groups whose requests are all audited, to see which rights they use and which they miss."""
_WRITES: Final = ("create", "update", "patch", "delete")
WEBHOOK_CLIENT: Final = "kube-apiserver-webhook-client"
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
        self._start_etcd()
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
            check = partial(lambda one: established(self.api.get(one)), definition)
            wait_for(f"{definition['metadata']['name']} to be established", check, START_LIMIT_S)
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

    def new_namespace(self) -> str:
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "e2e-"}}
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
        base = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.kubeconfig)},
            "leaderElection": {"leaderElect": False},
        }
        file.write_text(yaml.safe_dump({**base, **configuration}))
        command = [
            binary("kube-scheduler"),
            f"--config={file}",
            f"--bind-address={HOST}",
            f"--secure-port={port}",
            f"--tls-cert-file={self._file('server.crt')}",
            f"--tls-private-key-file={self._file('server.key')}",
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
        ]
        scheduler = self.processes.start("kube-scheduler", command)
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

    def _write_audit_policy(self) -> Path:
        """Create the audit policy: writes to some groups and all requests of some users, without contents."""
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [
                {"level": "Metadata", "userGroups": list(AUDITED_USERS)},
                {
                    "level": "Metadata",
                    "verbs": list(_WRITES),
                    "resources": [{"group": group} for group in self._audited],
                },
                {"level": "None"},
            ],
        }
        path = self._file("audit-policy.yaml")
        path.write_text(yaml.safe_dump(policy))
        return path

    def _write_admission_configuration(self) -> Path:
        """Create the configuration that gives the API server a client certificate for every webhook."""
        certificate, key = self._file("webhook-client.crt"), self._file("webhook-client.key")
        self.authority.issue(WEBHOOK_CLIENT).write(certificate, key)
        access = self._file("webhook-client.kubeconfig")
        user = {"client-certificate": str(certificate), "client-key": str(key)}
        access.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": user}]}))
        plugin = {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": str(access),
        }
        configuration = {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AdmissionConfiguration",
            "plugins": [
                {"name": f"{kind}AdmissionWebhook", "configuration": plugin} for kind in ("Mutating", "Validating")
            ],
        }
        path = self._file("admission.yaml")
        path.write_text(yaml.safe_dump(configuration))
        return path

    def _start_etcd(self) -> Process:
        peers = f"http://{HOST}:{self.processes.ports.free()}"
        command = [
            binary("etcd"),
            "--name=e2e",
            f"--data-dir={self._file('etcd')}",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=e2e={peers}",
            "--unsafe-no-fsync",  # the data lives as long as the tests
            "--log-level=warn",
        ]
        etcd = self.processes.start("etcd", command)
        healthy = f"{self.etcd_url}/health"
        etcd.wait_for("to be healthy", lambda: "true" in (fetch(healthy) or ""), START_LIMIT_S)
        return etcd

    def _start_apiserver(self) -> Process:
        port = self.url.rpartition(":")[2]
        command = [
            binary("kube-apiserver"),
            f"--etcd-servers={self.etcd_url}",
            f"--bind-address={HOST}",
            f"--advertise-address={HOST}",
            "--endpoint-reconciler-type=none",  # no client uses the Service `kubernetes`
            f"--secure-port={port}",
            f"--tls-cert-file={self._file('server.crt')}",
            f"--tls-private-key-file={self._file('server.key')}",
            f"--client-ca-file={self._file('ca.crt')}",
            f"--service-account-issuer={self.url}",
            f"--service-account-key-file={self._file('service-accounts.crt')}",
            f"--service-account-signing-key-file={self._file('service-accounts.key')}",
            "--authorization-mode=RBAC",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            *(() if self.service_accounts else ("--disable-admission-plugins=ServiceAccount",)),
            # kube-scheduler reads these from the API server to know whom to trust:
            f"--requestheader-client-ca-file={self._file('ca.crt')}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={self._file('front-proxy.crt')}",
            f"--admission-control-config-file={self._write_admission_configuration()}",
            f"--audit-policy-file={self._write_audit_policy()}",
            f"--audit-log-path={self._file('audit.jsonl')}",
            "--audit-log-mode=blocking",
            f"--proxy-client-key-file={self._file('front-proxy.key')}",
            *self._flags,
        ]
        apiserver = self.processes.start("kube-apiserver", command)
        apiserver.wait_for("to be ready", lambda: self.text("/readyz") == "ok", START_LIMIT_S)
        return apiserver


def established(definition: Mapping[str, Any]) -> bool:
    """Whether the API server serves what a stored definition defines."""
    conditions = {one["type"]: one for one in definition.get("status", {}).get("conditions") or []}
    for wanted in ("NamesAccepted", "Established"):
        condition = conditions.get(wanted, {"status": "Unknown", "message": "no condition yet"})
        assert condition["status"] == "True", f"{wanted} is {condition['status']}: {condition['message']}"
    return True


def fetch(url: str, trust: ssl.SSLContext | None = None) -> str | None:
    """The body of a GET; None if there is no answer or an error."""
    try:
        with urllib.request.urlopen(url, timeout=PROBE_LIMIT_S, context=trust) as response:
            return str(response.read().decode())
    except (OSError, urllib.error.URLError):
        return None
