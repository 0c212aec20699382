"""The chart on a real node: kubelet and containerd run the pods of our image, and a load of admissions goes on."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from e2e.api import RefusedError
from e2e.assets import binary
from e2e.control_plane import fetch
from e2e.manifests import cluster_propagation_policy, deployments
from e2e.processes import wait_for
from node.cluster import UNITS, Cluster, say
from node.node import run

NAMESPACE = "berthmaster"
REQUESTS = 300
"""How many admissions must be answered during a change, and again after it."""
READY_LIMIT_S = 1.5


@pytest.fixture(scope="module")
def before(host, node, command) -> set[str]:
    return Cluster(host, node, command, NAMESPACE).objects()


@pytest.fixture(scope="module")
def cluster(host, node, command, before) -> Cluster:  # noqa: ARG001
    """The release, installed with the commands of docs/install.md."""
    made = Cluster(host, node, command, NAMESPACE)
    made.import_image()
    started_s = time.monotonic()
    command(
        "helm install berthmaster charts/berthmaster --namespace berthmaster --create-namespace"
        " --set mode=single,image.repository=registry.example.org/berthmaster"
    )
    made.rolled_out()
    say(f"installed in {time.monotonic() - started_s:.1f} s")
    return made


def test_it_reviews_policies(cluster):
    with pytest.raises(RefusedError, match="denied the request"):
        cluster.api.create(cluster_propagation_policy(preemption="Always", resourceSelectors=[deployments()]))


def rolling_restart(cluster):
    cluster.kubectl("rollout", "restart", "deployment/berthmaster-webhook")
    cluster.rolled_out()


def upgrade(cluster):
    lease = "controllers.leaderElection"
    changes = (
        f"webhook.pods.annotations.changed=yes,{lease}.leaseSeconds=6,{lease}.renewSeconds=4,{lease}.retrySeconds=1"
    )
    line = "helm upgrade berthmaster charts/berthmaster --namespace berthmaster --reset-then-reuse-values"
    cluster.command(line, more=f" --set {changes}")
    cluster.rolled_out()


def new_leaf(cluster):
    cluster.command("kubectl --namespace berthmaster exec deployment/berthmaster-certs -- berthmaster certs rotate")


def new_authority(cluster):
    cluster.command(
        "kubectl --namespace berthmaster exec deployment/berthmaster-certs -- berthmaster certs rotate --ca"
    )


def forced_deletion(cluster):
    name = cluster.pods("webhook")[0]["metadata"]["name"]
    cluster.kubectl("delete", "pod", name, "--force", "--grace-period=0")
    cluster.rolled_out()


def eviction_of_all(cluster):
    """Evict each webhook pod as a drain does. The PodDisruptionBudget refuses until the one before is replaced."""
    for pod in cluster.pods("webhook"):
        name = pod["metadata"]["name"]
        file = cluster.host.processes.folder / "eviction.json"
        metadata = {"name": name, "namespace": NAMESPACE}
        file.write_text(json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}))
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction"
        evict = [str(binary("kubectl")), f"--kubeconfig={cluster.host.kubeconfig}", "create", f"--raw={path}"]
        wait_for(f"{name} to be evicted", lambda: not run([*evict, f"--filename={file}"], ok=False), 120)  # noqa: B023
    cluster.rolled_out()


def restart_of_containerd(cluster):
    cluster.node.restart_containerd()
    cluster.rolled_out()


@pytest.mark.parametrize(
    "change",
    [rolling_restart, upgrade, new_leaf, new_authority, forced_deletion, eviction_of_all, restart_of_containerd],
    ids=lambda change: change.__name__,
)
def test_no_admission_fails_during(change: Callable[[Cluster], None], cluster: Cluster) -> None:
    with cluster.load() as load:
        load.more(20)
        change(cluster)
        load.more(REQUESTS, 120)
    say(f"{change.__name__}: {load.answered} admissions, {len(load.failures)} failed")
    assert not load.failures, load.report()


FACTS = """
import json, os
def writes(path):
    try: open(path + '/written', 'w').close()
    except OSError as error: return error.strerror
    return 'yes'
status = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)
print(json.dumps({'user': [os.getuid(), os.getgid()], 'root': writes('/'), 'code': writes('/opt/berthmaster'),
    'tmp': writes('/tmp'), 'capabilities': status['CapEff'].strip(), 'bounding': status['CapBnd'].strip(),
    'no_new_privileges': status['NoNewPrivs'].strip(), 'seccomp': status['Seccomp'].strip()}))
"""


@pytest.mark.parametrize("component", ["webhook", "controllers", "certs"])
def test_the_kubelet_enforces_the_security_context(cluster, component):
    name = cluster.pods(component)[0]["metadata"]["name"]
    found = json.loads(cluster.kubectl("exec", name, "--", "/opt/berthmaster/bin/python", "-c", FACTS))
    assert found["user"] == [65532, 65532]
    assert found["root"] == found["code"] == "Read-only file system"
    assert found["capabilities"] == found["bounding"] == "0" * 16
    assert (found["no_new_privileges"], found["seccomp"]) == ("1", "2")


def test_the_kubelet_starts_no_container_as_root(cluster):
    pod = cluster.pods("webhook")[0]
    container = {**pod["spec"]["containers"][0], "name": "root"}
    container = {key: container[key] for key in ("name", "image", "imagePullPolicy")}
    container["securityContext"] = {"runAsNonRoot": True, "runAsUser": 0}
    metadata = {"name": "root", "namespace": NAMESPACE}
    wanted = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    cluster.api.create(wanted)
    try:

        def reason() -> str:
            statuses = cluster.api.get(wanted)["status"].get("containerStatuses", [{}])
            return statuses[0].get("state", {}).get("waiting", {}).get("reason", "")

        wait_for("kubelet to refuse the container", lambda: reason() == "CreateContainerConfigError", 60)
    finally:
        cluster.kubectl("delete", "pod", "root", "--now")


def test_the_memory_of_each_container_is_far_below_its_limit(cluster):
    for pod in cluster.pods():
        if pod["status"]["phase"] != "Running":
            continue
        used = cluster.node.memory(pod)
        for container in pod["spec"]["containers"]:
            limit = container["resources"]["limits"]["memory"]
            allowed = int(limit[:-2]) * UNITS[limit[-2:]]
            say(f"{pod['metadata']['name']}: {used[container['name']] / 2**20:.0f} MiB of {limit}")
            assert used[container["name"]] < allowed * 0.7


def age_s(process: int) -> float:
    """Return how long ago a process started, in seconds."""
    ticks = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def test_a_webhook_is_ready_soon_after_its_process_started(cluster):
    """Kill the process: kubelet starts the container again. Neither image nor volumes take time then."""
    pod = cluster.pods("webhook")[0]
    first = cluster.node.processes_of(pod["status"]["containerStatuses"][0]["containerID"])[0]
    os.kill(first, signal.SIGKILL)
    ready = f"http://{pod['status']['podIP']}:9080/readyz"

    def started() -> int:
        found = cluster.api.get({"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]})
        processes = cluster.node.processes_of(found["status"]["containerStatuses"][0]["containerID"])
        return processes[0] if processes and first not in processes else 0

    wait_for("a new process", started, 60)
    wait_for("the webhook to be ready", lambda: fetch(ready), 30)
    took_s = age_s(started())  # the runtime replaces the first process while it starts
    busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    say(f"ready after {took_s:.2f} s with a load of {busy:.1f} for each processor")
    assert took_s < READY_LIMIT_S * busy
    cluster.rolled_out()


def test_another_controller_takes_over_from_a_killed_one(cluster):
    def holder() -> str:
        [found] = cluster.api.list("coordination.k8s.io/v1", "Lease", NAMESPACE)
        return str(found["spec"].get("holderIdentity") or "")

    leader = wait_for("a leader", holder, 60)
    [name] = [pod["metadata"]["name"] for pod in cluster.pods("controllers") if pod["metadata"]["name"] in leader]
    started_s = time.monotonic()
    cluster.kubectl("delete", "pod", name, "--force", "--grace-period=0")
    wait_for("another leader", lambda: holder() not in {"", leader}, 30)
    say(f"another leader after {time.monotonic() - started_s:.1f} s")
    cluster.rolled_out()


def test_an_uninstall_leaves_nothing(cluster, before):
    cluster.command("helm uninstall berthmaster --namespace berthmaster")
    others = {
        f"Namespace /{NAMESPACE}",
        f"ServiceAccount {NAMESPACE}/default",
        f"ConfigMap {NAMESPACE}/kube-root-ca.crt",
    }
    wait_for("all objects to be removed", lambda: not_left(cluster.objects() - before - others), 90)


def not_left(objects: set[str]) -> bool:
    assert not objects, sorted(objects)
    return True
