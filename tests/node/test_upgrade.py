"""From release 0.1.0 to this version and back, on a node: helm replaces the pods under a load of admissions."""

import json

import pytest
from charts.assets import helm_binary
from charts.helm import CHART
from e2e.api import RefusedError
from e2e.earlier_release import VERSION, unpacked
from e2e.manifests import cluster_propagation_policy, deployments
from node.cluster import Cluster, say
from node.earlier_image import write_image
from node.node import run

from berthmaster.version import __version__

REQUESTS = 200
NAME = "upgraded"
VALUES = (
    "mode=single,image.repository=registry.example.org/berthmaster,extender.enabled=true,extender.auth.insecure=true"
)


def helm(cluster, *words):
    environment = {"KUBECONFIG": str(cluster.host.kubeconfig)}
    run([str(helm_binary()), *words, f"--namespace={cluster.namespace}"], environment=environment)


@pytest.fixture(scope="module")
def release(host, node, command, tmp_path_factory):
    """Release 0.1.0, installed with its own chart."""
    old = unpacked(tmp_path_factory.mktemp("release"))
    image = tmp_path_factory.mktemp("image") / "image.tar"
    write_image(old, VERSION, image)
    node.ctr("images", "import", str(image))
    made = Cluster(host, node, command, NAME, release=NAME)
    made.import_image()
    helm(made, "install", NAME, str(old / "charts" / "berthmaster"), "--create-namespace", f"--set={VALUES}")
    made.rolled_out()
    yield made
    helm(made, "uninstall", NAME, "--ignore-not-found")


def versions(cluster):
    """Return the versions that the processes in the pods of a release have, by component."""
    found = {}
    for pod in cluster.pods():
        if pod["status"]["phase"] == "Running":
            said = cluster.kubectl("exec", pod["metadata"]["name"], "--", "berthmaster", "--version")
            found.setdefault(pod["metadata"]["labels"]["app.kubernetes.io/component"], set()).add(said.split()[1])
    return found


def bundles(cluster):
    """Return the certificate authorities that the API server trusts for the webhooks of a release."""
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    listed = json.loads(cluster.kubectl("get", kinds, "--output=json"))["items"]
    own = [each for each in listed if each["metadata"]["name"].startswith(cluster.release)]
    return {each["metadata"]["name"]: [hook["clientConfig"]["caBundle"] for hook in each["webhooks"]] for each in own}


def test_no_admission_fails_on_the_way_to_this_version_and_back(release):
    components = {"certs", "controllers", "extender", "webhook"}
    trusted = bundles(release)
    upgrade = ("upgrade", NAME, str(CHART), "--reset-then-reuse-values")
    for words, version in ((upgrade, __version__), (("rollback", NAME), VERSION)):
        with release.load() as load:
            load.more(20)
            helm(release, *words)
            release.rolled_out()
            load.more(REQUESTS, 120)
        say(f"{words[0]} to {version}: {load.answered} admissions, {len(load.failures)} failed")
        assert not load.failures, load.report()
        assert versions(release) == {name: {version} for name in components}
        with pytest.raises(RefusedError, match="denied the request"):
            release.api.create(cluster_propagation_policy(preemption="Always", resourceSelectors=[deployments()]))
        assert bundles(release) == trusted, "the API server trusts the same authority"
