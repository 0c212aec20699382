"""The chart beside Karmada: the policies are in an API server of its own, which calls the webhook by its URL."""

import base64
import json
import subprocess
from pathlib import Path

import pytest
from e2e.api import RefusedError
from e2e.control_plane import HOST, ControlPlane, crd_folder
from e2e.karmada import install_clusters, install_quotas
from e2e.manifests import cluster_propagation_policy, deployments
from e2e.processes import Processes
from node.cluster import Cluster, say
from node.node import ADDRESS, run

NAMESPACE = "karmada-system"
REQUESTS = 300


class Target(ControlPlane):
    """An API server that pods reach, as karmada-apiserver."""

    hosts = (HOST, ADDRESS)

    def secret(self):
        """The Secret that Karmada's chart creates: an administrator's kubeconfig."""
        content = json.loads(self.kubeconfig.read_text())
        content["clusters"][0]["cluster"]["server"] = self.url.replace(HOST, ADDRESS)
        for part in (content["clusters"][0]["cluster"], content["users"][0]["user"]):
            for key in ("certificate-authority", "client-certificate", "client-key"):
                if key in part:
                    part[f"{key}-data"] = base64.b64encode(Path(part.pop(key)).read_bytes()).decode()
        metadata = {"name": "karmada-kubeconfig", "namespace": NAMESPACE}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        return {**secret, "stringData": {"kubeconfig": json.dumps(content)}}


@pytest.fixture(scope="module")
def target(node, tmp_path_factory):
    """Karmada's API server. It asks the DNS of the cluster for the names of Services, as a pod does."""
    run(["mount", "--bind", str(node.names.file), "/etc/resolv.conf"])
    processes = Processes(tmp_path_factory.mktemp("karmada"))
    try:
        plane = Target(processes, flags=("--bind-address=0.0.0.0",))
        plane.install(crd_folder())
        install_clusters(plane.api)
        install_quotas(plane.api)
        yield plane
    finally:
        processes.stop_all()
        subprocess.run(["umount", "/etc/resolv.conf"], check=False, timeout=60)


@pytest.fixture(scope="module")
def cluster(host, node, command, target):
    """The release, installed with the commands of docs/install.md."""
    made = Cluster(host, node, command, NAMESPACE, target.api)
    made.import_image()
    for api in (host.api, target.api):
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    host.api.create(target.secret())
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


def test_an_uninstall_leaves_nothing_in_the_target(cluster, target):
    cluster.command("helm uninstall berthmaster --namespace karmada-system")
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert target.api.list("admissionregistration.k8s.io/v1", kind) == []
