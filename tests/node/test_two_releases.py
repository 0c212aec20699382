"""Two releases in two namespaces of one cluster, and one that uses the network of its only node."""

import json
import time
from pathlib import Path

import pytest
from charts.assets import helm_binary
from e2e.api import RefusedError
from e2e.manifests import cluster_propagation_policy, deployments
from node.cluster import Cluster, say
from node.node import ADDRESS, run

ROOT = Path(__file__).parents[2]
REQUESTS = 300
COMMON = "mode=single,image.repository=registry.example.org/berthmaster"
NAMES = ("first", "second")


def helm(cluster, *words, **values):
    """Run helm for the release of a cluster, in the namespace of the same name."""
    given = ",".join([COMMON, *(f"{name.replace('__', '.')}={value}" for name, value in values.items())])
    return run(
        [
            str(helm_binary()), *words, cluster.release, str(ROOT / "charts" / "berthmaster"),
            f"--namespace={cluster.namespace}", f"--set={given}",
        ],
        environment={"KUBECONFIG": str(cluster.host.kubeconfig)},
    )  # fmt: skip


def uninstall(cluster):
    run(
        [str(helm_binary()), "uninstall", cluster.release, f"--namespace={cluster.namespace}", "--ignore-not-found"],
        environment={"KUBECONFIG": str(cluster.host.kubeconfig)},
    )


@pytest.fixture(scope="module")
def releases(host, node, command):
    """Two releases that review the policies of the cluster."""
    made = [Cluster(host, node, command, name, release=name) for name in NAMES]
    made[0].import_image()
    for each in made:
        helm(each, "install", "--create-namespace")
    for each in made:
        each.rolled_out()
    yield made
    for each in made:
        uninstall(each)


def configurations(cluster):
    """Return the bundle of each webhook of a release, by the name of its configuration."""
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    listed = json.loads(cluster.kubectl("get", kinds, "--output=json"))["items"]
    own = [each for each in listed if each["metadata"]["name"].startswith(cluster.release)]
    return {
        (each["kind"], each["metadata"]["name"]): {hook["clientConfig"]["caBundle"] for hook in each["webhooks"]}
        for each in own
    }


def test_both_releases_review_with_certificates_of_their_own(releases):
    first, second = (configurations(each) for each in releases)
    assert len(first) == len(second) == 2
    assert not set.union(*first.values()) & set.union(*second.values())
    with pytest.raises(RefusedError, match="denied the request"):
        releases[0].api.create(cluster_propagation_policy(preemption="Always", resourceSelectors=[deployments()]))


def test_an_upgrade_of_one_release_fails_no_admission_and_changes_nothing_of_the_other(releases):
    first, second = releases
    before = configurations(first), sorted(pod["metadata"]["name"] for pod in first.pods())
    with first.load() as load:
        load.more(20)
        started_s = time.monotonic()
        helm(second, "upgrade", webhook__pods__annotations__changed="yes", webhook__replicas=3)
        second.rolled_out()
        say(f"the second release was upgraded in {time.monotonic() - started_s:.1f} s")
        load.more(REQUESTS, 120)
    say(f"{load.answered} admissions of two releases, {len(load.failures)} failed")
    assert not load.failures, load.report()
    assert before == (configurations(first), sorted(pod["metadata"]["name"] for pod in first.pods()))


def test_the_removal_of_one_release_fails_no_admission(releases):
    first, second = releases
    with first.load() as load:
        load.more(20)
        uninstall(second)
        load.more(REQUESTS, 120)
    say(f"{load.answered} admissions during the removal of a release, {len(load.failures)} failed")
    assert not load.failures, load.report()
    assert configurations(second) == {}
    assert len(configurations(first)) == 2


@pytest.fixture(scope="module")
def on_the_node(releases):
    """A release that uses the network of the node. Each of its components runs as often as there are nodes."""
    made = Cluster(releases[0].host, releases[0].node, releases[0].command, "third", release="third")
    single = dict.fromkeys(("webhook__replicas", "controllers__replicas", "certs__replicas"), 1)
    helm(made, "install", "--create-namespace", pods__hostNetwork="true", **single)
    made.rolled_out()
    yield made
    uninstall(made)


def test_all_components_share_the_network_of_a_node(on_the_node):
    pods = on_the_node.pods()
    running = [each for each in pods if each["status"]["phase"] == "Running"]
    assert {each["status"]["podIP"] for each in running} == {ADDRESS}
    assert len({each["metadata"]["labels"]["app.kubernetes.io/component"] for each in running}) == len(running) == 3


def test_an_upgrade_on_the_network_of_the_only_node_ends(on_the_node):
    """The ports are those of the node, so that a new pod cannot start beside the old one."""
    before = {pod["metadata"]["name"] for pod in on_the_node.pods()}
    helm(on_the_node, "upgrade", "--reuse-values", pods__annotations__changed="yes")
    on_the_node.rolled_out()
    assert not before & {pod["metadata"]["name"] for pod in on_the_node.pods() if pod["status"]["phase"] == "Running"}
    with on_the_node.load() as load:
        load.more(50)
    assert not load.failures, load.report()
