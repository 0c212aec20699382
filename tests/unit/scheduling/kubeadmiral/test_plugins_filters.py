import pytest
from kubeadmiral_builders import CONFIG_MAPS, Decided, member, term, unit

from berthmaster.scheduling.kubeadmiral.plugins import DEFAULT_FILTERS, FILTERS
from berthmaster.scheduling.kubeadmiral.profile import PluginNames

HERE = {"current": {"member1": 1}}
GPU = "nvidia.com/gpu"
FOUR = {"cpu": 4, "memory": "10Gi", GPU: 4}


def reason(name, cluster, **fields):
    """Return the reason of a single filter, and check that its column agrees."""
    decided = Decided(unit(**fields), [cluster], PluginNames((name,), (), ()))
    rejections = decided.rejections.get(cluster.name)
    assert (rejections is None) == bool(len(decided.decision.attempts[0].rows))
    return None if rejections is None else rejections[0][1]


def test_the_default_filters_in_their_order():
    assert DEFAULT_FILTERS == (
        "APIResources",
        "TaintToleration",
        "PlacementFilter",
        "ClusterAffinity",
        "ClusterReady",
        "ClusterTerminating",
        "ClusterEvicted",
    )


@pytest.mark.parametrize("name", FILTERS)
def test_a_cluster_without_problems_passes(name):
    assert reason(name, member()) is None


@pytest.mark.parametrize(
    ("cluster", "fields", "message"),
    [
        pytest.param(member(serves=[CONFIG_MAPS]), {}, "does not serve apps/v1 Deployment", id="another kind"),
        pytest.param(member(), {"api_version": "apps/v1beta1"}, "does not serve apps/v1beta1", id="another version"),
        pytest.param(member(serves=[]), HERE, "does not serve", id="another kind on a current cluster"),
        pytest.param(member(), {"api_version": "v1", "kind": "ConfigMap"}, None, id="a kind of the core group"),
    ],
)
def test_api_resources(cluster, fields, message):
    check(reason("APIResources", cluster, **fields), message)


@pytest.mark.parametrize(
    ("taints", "fields", "message"),
    [
        pytest.param(["a:NoSchedule"], {}, "a:NoSchedule", id="NoSchedule rejects new objects"),
        pytest.param(["a:NoSchedule"], HERE, None, id="NoSchedule lets an object stay"),
    ],
)
def test_taint_toleration(taints, fields, message):
    check(reason("TaintToleration", member(taints=taints), **fields), message)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"cluster_selector": {"az": "a", "region": "r"}}, None, id="all labels of the selector"),
        pytest.param({"cluster_selector": {"az": "a", "region": "x"}}, "region=x does not match", id="another value"),
        pytest.param(
            {"cluster_selector": {"zone": ""}}, "zone= does not match", id="a missing label is not an empty one"
        ),
        pytest.param({"required": None}, None, id="no required terms"),
        pytest.param({"required": ()}, "no term", id="an empty list of required terms"),
        pytest.param({"required": (term(("az", "In", "a")),)}, None, id="a term that matches"),
        pytest.param({"required": (term(("az", "In", "b")),)}, "no term", id="a term that does not match"),
        pytest.param({"required": (term(("az", "Near")),)}, "invalid term", id="an invalid term"),
        pytest.param(
            {"cluster_selector": {"az": "b"}, "required": (term(("az", "In", "a")),)},
            "az=b does not match",
            id="a matching term does not replace the selector",
        ),
    ],
)
def test_cluster_affinity(fields, message):
    check(reason("ClusterAffinity", member(labels={"az": "a", "region": "r"}), **fields), message)


@pytest.mark.parametrize("fields", [{}, HERE], ids=["new", "current"])
def test_a_cluster_that_is_being_deleted_is_always_rejected(fields):
    assert reason("ClusterTerminating", member(deleting=True), **fields) == "is being deleted"


@pytest.mark.parametrize(
    ("available", "requests", "message"),
    [
        pytest.param({}, {}, None, id="no request fits without free capacity"),
        pytest.param({}, {GPU: 0}, None, id="full use is not overcommitment"),
        pytest.param({"cpu": -1, "memory": 0}, {}, None, id="no request fits an overcommitted cluster"),
        pytest.param({"cpu": -1, "memory": 0}, {"cpu": 0}, None, id="a request for 0 fits an overcommitted cluster"),
        pytest.param({"cpu": -1, "memory": 0}, {GPU: 0}, "cpu", id="a request for 0 GPUs counts as a request"),
        pytest.param({"cpu": 1, "memory": 0, GPU: 4}, {GPU: 4}, None, id="exactly the free amount"),
        pytest.param({"cpu": 1, "memory": 0, GPU: 3}, {GPU: 4}, GPU, id="one GPU short"),
        pytest.param({"cpu": "-1m", "memory": 0, GPU: 4}, {GPU: 1}, "cpu", id="an overcommitted cluster"),
        pytest.param({"cpu": "100m", "memory": "1Gi"}, {"cpu": "101m"}, "cpu", id="a millicore short"),
        pytest.param({"cpu": "100m", "memory": "1Gi"}, {"cpu": "100m", "memory": "1Gi"}, None, id="cpu and memory fit"),
        pytest.param({"cpu": 4, "memory": "1Gi"}, {"memory": "2Gi"}, "memory", id="memory is short"),
        pytest.param({"cpu": 4, "memory": 1}, {"ephemeral-storage": "1Ti"}, None, id="storage is never compared"),
        pytest.param(
            {"cpu": 4, "memory": 1}, {"example.com/x": 1}, "example.com/x", id="a resource that no cluster has"
        ),
        pytest.param(
            {"cpu": 5, "memory": 1}, {"cpu": 1}, "cpu", id="more available than allocatable counts as fully used"
        ),
    ],
)
def test_cluster_resources_fit(available, requests, message):
    cluster = member(allocatable=FOUR, available=available)
    check(reason("ClusterResourcesFit", cluster, requests=requests), message)
    assert reason("ClusterResourcesFit", cluster, requests=requests, **HERE) is None


def test_every_insufficient_resource_is_named():
    cluster = member(allocatable=FOUR, available={"cpu": -1, "memory": -1, GPU: 0})
    assert reason("ClusterResourcesFit", cluster, requests={GPU: 1}) == f"has insufficient cpu, memory, {GPU}"


def check(given, message):
    if message is None:
        assert given is None
    else:
        assert given is not None
        assert message in given
