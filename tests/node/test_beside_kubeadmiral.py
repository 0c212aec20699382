"""The chart beside KubeAdmiral: the webhook reviews its policies, and its scheduler calls the extender as a plugin."""

import base64
import json

import pytest
import requests
from e2e.api import RefusedError
from e2e.manifests import KUBEADMIRAL, admiral_cluster_policy, manifest
from node.cluster import Cluster

NAMESPACE = "kubeadmiral-system"
COMMANDS = """
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1095 -subj /CN=kubeadmiral-client-ca \
-keyout client-ca.key -out client-ca.crt
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=kubeadmiral-scheduler -keyout client.key \
-out client.csr
openssl x509 -req -in client.csr -CA client-ca.crt -CAkey client-ca.key -CAcreateserial -days 365 -out client.crt
kubectl --namespace kubeadmiral-system create secret generic kubeadmiral-client-ca --from-file=ca.crt=client-ca.crt
helm install berthmaster charts/berthmaster --namespace kubeadmiral-system --values kubeadmiral.yaml \
--set extender.kubeAdmiral.certData=$(base64 -w0 < client.crt) \
--set extender.kubeAdmiral.keyData=$(base64 -w0 < client.key)
"""


@pytest.fixture(scope="module")
def cluster(host, node, command, target):
    """The release, installed with the commands of docs/install.md."""
    made = Cluster.beside(host, node, command, target, NAMESPACE, "kubeadmiral-kubeconfig-secret")
    for line in COMMANDS.strip().splitlines():
        command(line)
    made.rolled_out()
    return made


def plugin(target):
    wanted = manifest(KUBEADMIRAL, "SchedulerPluginWebhookConfiguration", None, {})
    return target.api.get({**wanted, "metadata": {"name": "berthmaster"}})["spec"]


@pytest.mark.usefixtures("cluster")
def test_the_webhook_reviews_policies(target):
    with pytest.raises(RefusedError, match="denied the request"):
        target.api.create(admiral_cluster_policy(maxClusters=-1))


@pytest.mark.usefixtures("cluster")
def test_the_scheduler_calls_the_extender_with_what_the_chart_registered(target, tmp_path):
    """As KubeAdmiral's scheduler, with the address, the authority and the certificate of the configuration."""
    stored = plugin(target)
    files = {}
    for key in ("caData", "certData", "keyData"):
        files[key] = tmp_path / key
        files[key].write_bytes(base64.b64decode(stored["tlsConfig"][key]))
    groups = json.dumps([{"affinityName": "eu", "clusterNames": ["member1"]}])
    unit = {
        "apiVersion": "apps/v1", "kind": "Deployment", "resource": "deployments", "namespace": "shop", "name": "web",
        "schedulingMode": "Duplicate", "currentClusters": [],
        "annotations": {"policy.berthmaster.io/cluster-affinities": groups},
    }  # fmt: skip

    def selected(name: str, **options: object) -> bool:
        body = {"schedulingUnit": unit, "cluster": {"metadata": {"name": name}}}
        url = stored["urlPrefix"] + stored["filterPath"]
        return requests.post(url, json=body, verify=str(files["caData"]), timeout=20, **options).json()["selected"]

    known = {"cert": (str(files["certData"]), str(files["keyData"]))}
    assert [selected(name, **known) for name in ("member1", "member2")] == [True, False]
    with pytest.raises(requests.exceptions.RequestException):
        selected("member1")


def test_an_uninstall_leaves_nothing_in_the_target(cluster, target):
    cluster.command("helm uninstall berthmaster --namespace kubeadmiral-system")
    for kind in ("SchedulerPluginWebhookConfiguration", "SchedulingProfile"):
        assert target.api.list(KUBEADMIRAL, kind) == []
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert target.api.list("admissionregistration.k8s.io/v1", kind) == []
