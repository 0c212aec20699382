"""The chart beside Karmada: the policies are in an API server of its own, which calls the webhook by its URL."""

import base64
import itertools
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
import requests
from e2e.api import RefusedError
from e2e.karmada import assigned, binding, divided, join
from e2e.karmada import cluster as member
from e2e.manifests import cluster_propagation_policy, deployments, manifest
from e2e.processes import wait_for
from node.cluster import UNITS, Cluster, say
from node.node import ports_of

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import hostile_rows

NAMESPACE = "karmada-system"
HOSTILE_S = 15
REQUESTS = 300
UNREADY_AFTER_S = 6
"""After this time a pod is unready if each of its readiness probes fails: two probes, one every two seconds."""


@pytest.fixture(scope="module")
def cluster(host, node, command, target):
    """The release, installed with the commands of docs/install.md."""
    made = Cluster.beside(host, node, command, target, NAMESPACE, "karmada-kubeconfig")
    command(
        "helm install berthmaster charts/berthmaster --namespace karmada-system"
        " --set image.repository=registry.example.org/berthmaster"
    )
    made.rolled_out()
    return made


@pytest.mark.usefixtures("cluster")
def test_karmada_calls_the_webhook(target):
    with pytest.raises(RefusedError, match="denied the request"):
        target.api.create(cluster_propagation_policy(preemption="Always", resourceSelectors=[deployments()]))


@pytest.mark.parametrize(
    ("killed", "port", "most_failures"),
    [pytest.param("a worker", 8443, 1, id="worker"), pytest.param("what serves probes", 9080, 0, id="probes")],
)
def test_a_killed_process_fails_no_more_than_its_requests_in_progress(cluster, killed, port, most_failures):
    """Kill a process in each webhook pod, as the kernel does when a container has no memory left."""
    pods = cluster.pods("webhook")
    before = [cluster.node.processes_of(each["status"]["containerStatuses"][0]["containerID"]) for each in pods]
    with cluster.load() as load:
        load.more(20)
        for processes in before:
            os.kill(next(each for each in processes if ports_of(each) == {port}), signal.SIGKILL)
        time.sleep(UNREADY_AFTER_S)
        load.more(REQUESTS, 120)
    say(f"killed {killed}: {load.answered} admissions, {len(load.failures)} failed")
    assert len(load.failures) <= most_failures * len(pods), load.report()
    after = cluster.pods("webhook")
    ready = [[each for each in pod["status"]["conditions"] if each["type"] == "Ready"] for pod in [*pods, *after]]
    assert ready[: len(pods)] == ready[len(pods) :], "no pod was unready"
    for pod, processes in zip(after, before, strict=True):
        [status] = pod["status"]["containerStatuses"]
        assert status["restartCount"] == 0
        assert len(cluster.node.processes_of(status["containerID"])) == len(processes), "each process was replaced"


def test_no_admission_fails_during_a_restart_and_a_new_authority(cluster):
    with cluster.load() as load:
        load.more(20)
        cluster.kubectl("rollout", "restart", "deployment/berthmaster-webhook")
        cluster.rolled_out()
        cluster.command(
            "kubectl --namespace karmada-system exec deployment/berthmaster-certs -- berthmaster certs rotate --ca"
        )
        load.more(REQUESTS, 120)
    say(f"beside Karmada: {load.answered} admissions, {len(load.failures)} failed")
    assert not load.failures, load.report()


@pytest.fixture(scope="module")
def console(cluster, command):
    """The address of the console, installed with the commands of docs/install.md."""
    command(
        "kubectl --namespace karmada-system create secret generic console-visitors"
        " --from-literal=tokens=$(openssl rand -hex 24),jane"
    )
    command(
        "helm upgrade berthmaster charts/berthmaster --namespace karmada-system --reset-then-reuse-values"
        " --values console.yaml"
    )
    cluster.rolled_out()
    address = cluster.kubectl("get", "service", "berthmaster-console", "--output=jsonpath={.spec.clusterIP}")

    def accepts() -> bool:
        with suppress(OSError), socket.create_connection((address, 443), timeout=5):
            return True
        return False

    # A pod that is ready accepts connections before kube-proxy has written the rules of its Service.
    wait_for("kube-proxy to know the pods of the console", accepts, 60)
    return f"https://{address}"


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_a_visitor_signs_in_to_the_console_and_sees_the_fleet(cluster, console, target):
    join(target.api, member("member1"))
    content = json.loads(cluster.kubectl("get", "secret", "console-visitors", "--output=json"))["data"]["tokens"]
    token = base64.b64decode(content).decode().partition(",")[0]
    with requests.Session() as browser:
        browser.verify = browser.trust_env = False  # as a visitor who accepts the certificate of the Service

        def sign_in(given: str) -> requests.Response:
            form = browser.get(f"{console}/sign-in", timeout=20).text
            [(name, value)] = re.findall(r'<input type="hidden" name="(\w*token)" value="([^"]+)"', form)
            return browser.post(f"{console}/sign-in", data={"token": given, name: value}, timeout=20)

        assert "This token is not valid" in sign_in("x" * 48).text
        assert "Sign in" in browser.get(console, timeout=20).text
        # kube-proxy may not know the pods of the extender yet: the console then says that it cannot be reached.
        assert "Sign out" in sign_in(token).text
        wait_for("the fleet", lambda: "member1" in browser.get(console, timeout=20).text, 60)


def send_without_pause(url, token, documents, stopped, answers):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with requests.Session() as client:
        client.verify = client.trust_env = False
        for path, body in itertools.cycle(documents):
            if stopped.is_set():
                return
            with suppress(requests.exceptions.RequestException):  # a refusal may close the connection
                answers.append(client.post(url + path, data=body, headers=headers, timeout=60).status_code)


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
@pytest.mark.usefixtures("console")
@pytest.mark.parametrize(("component", "port"), [("webhook", 8443), ("extender", 9443)])
def test_hostile_clients_do_not_exceed_the_memory_limit_of_a_pod(cluster, component, port):
    """Eight clients send the documents of `make bench-hostile`. The webhook needs no token."""
    pod = cluster.pods(component)[0]
    token = ""
    if component == "extender":
        read = "print(open('/etc/berthmaster/tokens/tokens').read().partition(',')[0].strip())"
        python = ("--", "/opt/berthmaster/bin/python", "-c")
        token = cluster.kubectl("exec", pod["metadata"]["name"], *python, read).strip()
    documents = [(row.path, row.body()) for row in hostile_rows.rows() if row.service == component]
    stopped, answers, used = threading.Event(), [], []
    url = f"https://{pod['status']['podIP']}:{port}"
    arguments = (url, token, documents, stopped, answers)
    clients = [threading.Thread(target=send_without_pause, args=arguments) for _ in range(8)]
    for each in clients:
        each.start()
    until_s = time.monotonic() + HOSTILE_S
    while time.monotonic() < until_s:
        used.append(sum(cluster.node.memory(pod).values()))
        time.sleep(0.1)
    stopped.set()
    for each in clients:
        each.join()
    [container] = pod["spec"]["containers"]
    limit = container["resources"]["limits"]["memory"]
    say(f"{component} beside hostile clients: at most {max(used) / 2**20:.0f} MiB of {limit}, {len(answers)} answers")
    assert len(answers) > len(documents)
    assert not {401, 404} & {*answers}
    assert max(used) < int(limit[:-2]) * UNITS[limit[-2:]]
    assert [each["restartCount"] for each in cluster.api.get(pod)["status"]["containerStatuses"]] == [0]


@pytest.fixture
def volume(cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ledger")
    os.chown(folder, 65532, 65532)
    amount = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    place = {"capacity": {"storage": "10Gi"}, "hostPath": {"path": str(folder), "type": "Directory"}}
    volume = cluster.api.create(manifest("v1", "PersistentVolume", None, {**amount, **place})).object
    wanted = {**amount, "resources": {"requests": {"storage": "10Gi"}}, "volumeName": volume["metadata"]["name"]}
    claim = cluster.api.create(manifest("v1", "PersistentVolumeClaim", NAMESPACE, wanted)).object
    yield claim["metadata"]["name"]
    for each in (claim, volume):
        cluster.kubectl("delete", each["kind"], each["metadata"]["name"], "--wait=false")


def test_the_ledger_survives_its_pod(cluster, command, target, volume):
    values = f"controllers.ledger.enabled=true,controllers.replicas=1,controllers.ledger.volume.existingClaim={volume}"
    line = "helm upgrade berthmaster charts/berthmaster --namespace karmada-system --reset-then-reuse-values"
    command(line, more=f" --set {values}")
    cluster.rolled_out()
    join(target.api, member("member2"))
    wanted = target.api.create(binding(NAMESPACE, divided(("first", ["member2"])))).object
    wait_for("the binding to be scheduled", lambda: assigned(target.api.get(wanted)), 60)

    def history() -> str:
        [pod] = [each["metadata"]["name"] for each in cluster.pods("controllers")]
        return cluster.kubectl(
            "exec", pod, "--", "berthmaster", "history", "--ledger=sqlite:////var/lib/berthmaster/ledger.db",
            "--output=json",
        )  # fmt: skip

    name = wanted["spec"]["resource"]["name"]
    wait_for("the decision to be on record", lambda: name in history(), 60)
    [pod] = cluster.pods("controllers")
    cluster.kubectl("delete", "pod", pod["metadata"]["name"])
    cluster.rolled_out()
    assert name in history()


def test_an_uninstall_leaves_nothing_in_the_target(cluster, target):
    cluster.command("helm uninstall berthmaster --namespace karmada-system")
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert target.api.list("admissionregistration.k8s.io/v1", kind) == []
