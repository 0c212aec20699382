"""The doctor beside a real API server: set-ups that are broken on purpose, and one that is well."""

import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from e2e import karmada
from e2e.api import Api
from e2e.certificates import Authority
from e2e.control_plane import HOST, ControlPlane
from e2e.manifests import unique
from e2e.processes import Processes, wait_for
from e2e.registration import KINDS, Hook, configuration
from e2e.service import KARMADA_HOOKS, REBALANCER_HOOK, Service
from e2e.serving import COMMAND, start_controllers, wait_for_leader

from certs.authority import issue, new_authority

pytestmark = pytest.mark.e2e

HOOKS: Final = (*KARMADA_HOOKS, REBALANCER_HOOK)
LIMIT_S: Final = 60.0
QUESTION_S: Final = 15.0
DAY: Final = timedelta(days=1)


@dataclass(frozen=True)
class Diagnosis:
    """What the doctor said."""

    code: int
    findings: tuple[dict[str, str], ...]

    def of(self, check: str) -> dict[str, str]:
        found = [each for each in self.findings if each["check"] == check]
        assert found, f"nothing about {check}: {json.dumps(self.findings, indent=1)}"
        return found[0]

    def wrong(self) -> list[dict[str, str]]:
        return [each for each in self.findings if each["verdict"] in {"failed", "warning"}]


Examine = Callable[..., Diagnosis]


@pytest.fixture
def examine(control_plane: ControlPlane) -> Examine:

    def run(*flags: str, kubeconfig: Path | None = None) -> Diagnosis:
        done = subprocess.run(
            [
                str(COMMAND), "doctor", f"--kubeconfig={kubeconfig or control_plane.kubeconfig}", "-o", "json",
                f"--timeout-s={QUESTION_S}", *flags,
            ],
            capture_output=True, timeout=LIMIT_S, check=False, text=True,
        )  # fmt: skip
        assert done.returncode in {0, 1}, done.stderr
        return Diagnosis(done.returncode, tuple(json.loads(done.stdout)["findings"]))

    return run


@pytest.fixture
def service(processes: Processes, tmp_path: Path) -> Iterator[Service]:
    """The webhook's address, without a replica."""
    with closing(Service(processes, tmp_path, "standalone")) as one:
        yield one


def entry(hook: Hook, url: str, bundle: bytes, **settings: Any) -> dict[str, Any]:
    """A webhook as the chart registers it; settings replace what it says."""
    content = hook.entry(f"{hook.path.partition('-')[2]}.berthmaster.io", url, bundle)
    for rule in content["rules"]:
        rule["operations"] = ["CREATE", "UPDATE"]
    return {**content, "timeoutSeconds": 3, **settings}


@contextmanager
def installed(api: Api, url: str, bundle: bytes, name: str = "", **settings: Any) -> Iterator[str]:
    """Our webhooks, registered by whatever URL and bundle."""
    name = name or unique("berthmaster")
    objects = [
        configuration(kind, name, [entry(hook, url, bundle, **settings) for hook in HOOKS if hook.verb == verb])
        for verb, kind in KINDS.items()
    ]
    for each in objects:
        api.create(each)
    try:
        yield name
    finally:
        for each in objects:
            api.delete(each)


def settled(examine: Examine, check: str, *flags: str) -> Diagnosis:
    """Examine until there is a finding: an API server acts on configurations at its leisure."""

    def found() -> Diagnosis:
        diagnosis = examine("--skip=fleet", "--skip=rights", "--skip=definitions", *flags)
        diagnosis.of(check)
        return diagnosis

    return wait_for(f"a finding about {check}", found, LIMIT_S)


def assert_failed(diagnosis: Diagnosis, check: str, remedy: str) -> None:
    finding = diagnosis.of(check)
    assert finding["verdict"] == "failed", finding
    assert remedy in finding["remedy"], finding
    assert diagnosis.code == 1


def test_before_an_install_only_its_ground_is_looked_at(examine: Examine, api: Api):
    karmada.install_clusters(api)
    diagnosis = examine("--before-install")
    assert diagnosis.code == 0, diagnosis.wrong()
    assert {each["group"] for each in diagnosis.findings} == {"api-server", "definitions", "rights", "conflicts"}
    assert diagnosis.of("definitions/propagationpolicies")["verdict"] == "ok"


def test_a_bundle_of_somebody_elses(examine: Examine, api: Api, service: Service):
    service.start()
    with installed(api, service.url, Authority("another").certificate):
        diagnosis = settled(examine, "admission/trial-authority")
        for check in ("admission/trial-authority", "certificates/served-authority"):
            assert_failed(diagnosis, check, "rollout restart deploy/berthmaster-certs")


def test_a_certificate_for_other_names(examine: Examine, api: Api, service: Service):
    service.write(service.authority.issue("webhook", hosts=("berthmaster-webhook.elsewhere.svc",)))
    service.start()
    with installed(api, service.url, service.authority.certificate):
        diagnosis = settled(examine, "admission/trial-names")
        for check in ("admission/trial-names", "certificates/served-names"):
            assert_failed(diagnosis, check, f"certificates.webhookExtraNames={{{HOST}}}")
        assert "berthmaster-webhook.elsewhere.svc" in diagnosis.of("certificates/served-names")["message"]


def test_a_certificate_that_has_expired(examine: Examine, api: Api, service: Service):
    authority = new_authority("expiring", DAY, datetime.now(UTC) - DAY / 2)
    leaf = issue(authority, "webhook", (HOST,), timedelta(hours=1), datetime.now(UTC) - timedelta(hours=3))
    service.certificate_file.write_bytes(leaf.certificate_pem)
    service.key_file.write_bytes(leaf.key_pem)
    service.start()
    with installed(api, service.url, authority.certificate_pem):
        diagnosis = settled(examine, "admission/trial-expired")
        for check in ("admission/trial-expired", "certificates/served-expired", "certificates/life"):
            assert_failed(diagnosis, check, "rollout restart deploy/berthmaster-certs")


def test_a_webhook_that_never_answers(examine: Examine, api: Api, service: Service):
    with socket.create_server((HOST, 0)) as listener:  # the kernel accepts, and no process reads
        url = f"https://{HOST}:{listener.getsockname()[1]}"
        with installed(api, url, service.authority.certificate, timeoutSeconds=1):
            diagnosis = settled(examine, "admission/trial-late", "--timeout-s=3")
            assert_failed(diagnosis, "admission/trial-late", "NetworkPolicy")
            assert diagnosis.of("registration/timeout")["verdict"] == "warning"


def test_a_controllers_user_who_lacks_a_verb(examine: Examine, control_plane: ControlPlane, namespace: str):
    user = unique("controllers")
    reads = [
        ({"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": ["list", "watch"]}, None),
        ({"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}, None),
        ({"apiGroups": ["policy.karmada.io"], "resources": ["federatedresourcequotas"], "verbs": ["list", "watch"]},
         None),
        ({"apiGroups": ["work.karmada.io"], "resources": ["resourcebindings", "clusterresourcebindings"],
          "verbs": ["list", "watch"]}, None),
        ({"apiGroups": ["work.karmada.io"], "resources": ["works"], "verbs": ["list"]}, None),
        ({"apiGroups": ["work.karmada.io"],
          "resources": ["resourcebindings/status", "clusterresourcebindings/status"], "verbs": ["patch"]}, None),
        ({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"]},
         namespace),
    ]  # fmt: skip
    own = control_plane.user(user, reads)
    flags = ("--before-install", f"--leader-elect-namespace={namespace}")
    for diagnosis in (examine(*flags, f"--rights-of={user}"), examine(*flags, kubeconfig=own)):
        denied = [each for each in diagnosis.findings if each["check"].startswith("rights/")]
        assert len(denied) == 1, denied
        assert_failed(diagnosis, "rights/resourcebindings.work.karmada.io", "helm upgrade --install berthmaster")
        assert f"{user} may not patch resourcebindings.work.karmada.io" in denied[0]["message"]


def test_all_is_well(
    examine: Examine, api: Api, control_plane: ControlPlane, processes: Processes, service: Service, namespace: str
):
    karmada.install_clusters(api)
    member = karmada.cluster()
    karmada.join(api, member)
    service.start()
    scheduler = unique("scheduler")
    running = start_controllers(processes, control_plane, namespace, f"--scheduler-name={scheduler}")
    mine = (f"--scheduler-name={scheduler}", f"--leader-elect-namespace={namespace}", f"--probe={running.probe_url}")
    try:
        wait_for_leader([running], LIMIT_S)
        binding = karmada.binding(
            namespace, karmada.divided(("all", [member["metadata"]["name"]])), schedulerName=scheduler
        )
        api.create(binding)
        wait_for("the binding to be scheduled", lambda: karmada.assigned(api.get(binding)), LIMIT_S)
        with installed(api, service.url, service.authority.certificate, "berthmaster"):
            diagnosis = wait_for("all to be well", lambda: well(examine(*mine)), LIMIT_S)
    finally:
        running.process.stop()
        api.delete(member)
    assert diagnosis.of("admission/rules")["message"] == "a policy that breaks a rule gets a warning"
    assert "leads" in diagnosis.of("controllers/leader")["message"]


def well(diagnosis: Diagnosis) -> Diagnosis:
    # What other tests leave behind in the shared control plane is theirs.
    failed = [each for each in diagnosis.wrong() if not each["check"].startswith("fleet/")]
    assert not failed, json.dumps(failed, indent=1)
    assert diagnosis.code == 0
    return diagnosis
