"""An installation in memory: Secrets, configurations, a settable clock, and replicas that reconcile certificates."""

import base64
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from fake_clock import START, FakeClock
from kube_in_memory import KubeInMemory

from berthmaster.kube.requests import APIRequest
from certs.authority import KeyPair
from certs.bundle import Bundle
from certs.bundle_fields import MUTATING, VALIDATING
from certs.certificate import pair_of
from certs.kubeadmiral import SCHEDULER_PLUGIN
from certs.leaf import StoredLeaf
from certs.options import CertificateOptions, ServingCertificate, TargetConfiguration
from certs.reconciler import CertificateEvents, CertificateReconciler, CertificateReport
from certs.snapshot import Clusters

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
NAMESPACE = "system"
AUTHORITY = f"/api/v1/namespaces/{NAMESPACE}/secrets/ca"
LEAVES = {name: f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}" for name in ("webhook-tls", "extender-tls")}
KINDS = (MUTATING, VALIDATING, SCHEDULER_PLUGIN)
TARGETS = (
    TargetConfiguration(MUTATING, "hooks"),
    TargetConfiguration(VALIDATING, "hooks"),
    TargetConfiguration(SCHEDULER_PLUGIN, "plugin"),
)
CONFIGURATIONS = {target: target.kind.collection.object(("", target.name)) for target in TARGETS}
OPTIONS = CertificateOptions(
    namespace=NAMESPACE,
    authority_secret="ca",  # noqa: S106 - the name of a Secret, not a secret
    serving=(
        ServingCertificate("webhook-tls", ("webhook.system.svc", "10.0.0.1")),
        ServingCertificate("extender-tls", ("extender.svc",)),
    ),
    targets=TARGETS,
)


def a_cluster(now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> KubeInMemory:
    cluster = KubeInMemory(now)
    for api_version, kind, plural, namespaced in (
        ("v1", "Secret", "secrets", True),
        ("v1", "Namespace", "namespaces", False),
        ("v1", "ConfigMap", "configmaps", True),
        *((each.api_version, each.kind, each.collection.plural, False) for each in KINDS),
        (SCHEDULER_PLUGIN.api_version, "SchedulingProfile", "schedulingprofiles", False),
    ):
        cluster.served.add(api_version, kind, plural, namespaced=namespaced)
    return cluster


class Recorded:
    """Records events and counts.

    Attributes:
        events: type, object and reason of each event.
        counts: reason and outcome of each count.
    """

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.counts: list[tuple[str, str]] = []

    def record(self, event: Any) -> None:
        self.events.append((event.kind, f"{event.regarding.kind}/{event.regarding.name}", event.reason))

    def count(self, reason: str, outcome: str) -> None:
        self.counts.append((reason, outcome))


def webhooks(kind: str, *names: str) -> dict[str, Any]:
    """A webhook configuration without a bundle."""
    entries = [{"name": name, "clientConfig": {"url": f"https://webhook.system.svc:443/{name}"}} for name in names]
    metadata = {"name": "hooks", "annotations": {"kept": "yes"}}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "webhooks": entries}


def plugin(url: str = "https://extender.svc:9443") -> dict[str, Any]:
    """A SchedulerPluginWebhookConfiguration without a bundle."""
    spec = {"payloadVersions": ["v1alpha1"], "urlPrefix": url}
    return {
        "apiVersion": SCHEDULER_PLUGIN.api_version, "kind": SCHEDULER_PLUGIN.kind, "metadata": {"name": "plugin"},
        "spec": spec,
    }  # fmt: skip


class Installation:
    """Host and target in one API server.

    Attributes:
        clock: the clock of all replicas and of the API server.
        cluster: the API server.
        recorder: records events and counts.
        options: of all replicas.
    """

    def __init__(self, options: CertificateOptions = OPTIONS) -> None:
        self.clock = FakeClock.at(START)
        self.cluster = a_cluster(self.clock.now)
        self.recorder = Recorded()
        self.options = options
        for target in options.targets:
            made = plugin() if target.kind == SCHEDULER_PLUGIN else webhooks(target.kind.kind, "a", "b")
            self.cluster.put(CONFIGURATIONS[target], made)

    def replica(self, client: Any = None, clock: Any = None, **changed: Any) -> CertificateReconciler:
        """Return a replica, if needed with its own client, clock or options."""
        clusters = Clusters(client or self.cluster, client or self.cluster)
        events = CertificateEvents(self.recorder, self.recorder, self.recorder.count)
        return CertificateReconciler(clusters, replace(self.options, **changed), clock or self.clock, events)

    def reconcile(self, **wanted: bool) -> list[str]:
        """Reconcile with a new replica. Return the reasons of its writes."""
        return reasons(self.replica().reconcile(**wanted))

    def advance(self, time: timedelta) -> None:
        self.clock.pass_by(time.total_seconds())

    def data(self, path: str) -> dict[str, bytes]:
        return {name: base64.b64decode(value) for name, value in self.cluster.objects[path].get("data", {}).items()}

    def writes(self) -> list[APIRequest]:
        """Return all write requests except those for events."""
        return [each for each in self.cluster.writes() if "/events" not in each.path]

    def issuer(self) -> KeyPair:
        data = self.data(AUTHORITY)
        pair = pair_of(data["tls.crt"], data["tls.key"])
        assert pair is not None
        return pair

    def bundle(self, path: str = AUTHORITY) -> Bundle:
        return Bundle.parse(self.data(path)["ca.crt"])

    def leaf(self, name: str = "webhook-tls") -> StoredLeaf:
        data = self.data(LEAVES[name])
        return StoredLeaf(data["tls.crt"], data["tls.key"])

    def injected(self) -> set[bytes]:
        paths = [CONFIGURATIONS[target] for target in self.options.targets]
        return {bundle for path in paths for bundle in injected_in(self.cluster.objects[path])}

    def settle(self, rounds: int = 6) -> list[str]:
        """Reconcile after each overlap until a rotation must be complete. Return the reasons of all writes."""
        done = self.reconcile()
        for _ in range(rounds):
            self.advance(self.options.overlap)
            done += self.reconcile()
        return done


def injected_in(content: dict[str, Any]) -> list[bytes]:
    if "webhooks" in content:
        texts = [hook["clientConfig"].get("caBundle", "") for hook in content["webhooks"]]
    else:
        texts = [content["spec"].get("tlsConfig", {}).get("caData", "")]
    return [base64.b64decode(text) for text in texts]


def reasons(report: CertificateReport) -> list[str]:
    assert not report.problems, report.problems
    return [str(finding.reason) for _, finding in report.done]
