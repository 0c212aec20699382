import pytest
from kubeadmiral_builders import CONFIG_MAPS, Decided, member, term, unit

from berthmaster.model.cluster import Toleration
from berthmaster.scheduling.kubeadmiral.plugins import DEFAULT_FILTERS, FILTERS
from berthmaster.scheduling.kubeadmiral.profile import PluginNames

HERE = {"current": {"member1": 1}}
GPU = "nvidia.com/gpu"
FOUR = {"cpu": 4, "memory": "10Gi", GPU: 4}


def reason(name, cluster, **fields):
    """What a filter alone says of a cluster; the columns must say the same, and only then."""
    decided = Decided(unit(**fields), [cluster], PluginNames((name,), (), ()))
    told = decided.rejections.get(cluster.name)
    assert (told is None) == bool(len(decided.decision.attempts[0].rows))
    return None if told is None else told[0][1]


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
def test_a_cluster_that_nothing_stands_against_passes(name):
    assert reason(name, member()) is None


@pytest.mark.parametrize(
    ("cluster", "fields", "said"),
    [
        pytest.param(member(serves=[CONFIG_MAPS]), {}, "does not serve apps/v1 Deployment", id="another kind"),
        pytest.param(member(), {"api_version": "apps/v1beta1"}, "does not serve apps/v1beta1", id="another version"),
        pytest.param(member(serves=[]), HERE, "does not serve", id="even where the object is"),
        pytest.param(member(), {"api_version": "v1", "kind": "ConfigMap"}, None, id="a kind of the core group"),
    ],
)
def test_api_resources(cluster, fields, said):
    check(reason("APIResources", cluster, **fields), said)


@pytest.mark.parametrize(
    ("taints", "fields", "said"),
    [
        pytest.param(["a:NoSchedule"], {}, "a:NoSchedule", id="NoSchedule keeps new objects away"),
        pytest.param(["a:NoExecute"], {}, "a:NoExecute", id="NoExecute keeps new objects away"),
        pytest.param(["a:PreferNoSchedule"], {}, None, id="PreferNoSchedule keeps nothing away"),
        pytest.param(["a:NoSchedule"], HERE, None, id="NoSchedule lets an object stay"),
        pytest.param(["a:NoExecute"], HERE, "a:NoExecute", id="NoExecute drives an object out"),
        pytest.param(
            ["a=b:NoSchedule"], {"tolerations": (Toleration(key="a", value="b"),)}, None, id="a tolerated taint"
        ),
        pytest.param(
            ["a=b:NoSchedule"], {"tolerations": (Toleration(value="b"),)}, None, id="an empty key compares values"
        ),
        pytest.param(
            ["a=b:NoExecute"],
            {"tolerations": (Toleration(key="a", operator="Exists", toleration_seconds=1),)},
            None,
            id="the seconds of a toleration play no part",
        ),
        pytest.param(
            ["a:NoSchedule", "b:NoSchedule"],
            {"tolerations": (Toleration(key="a", operator="Exists"),)},
            "b:NoSchedule",
            id="every taint has to be tolerated",
        ),
    ],
)
def test_taint_toleration(taints, fields, said):
    check(reason("TaintToleration", member(taints=taints), **fields), said)


@pytest.mark.parametrize(
    ("candidates", "said"),
    [
        pytest.param([], None, id="no list lets all pass"),
        pytest.param(["member1", "member2"], None, id="on the list"),
        pytest.param(["member2"], "not among the named clusters", id="not on the list"),
    ],
)
def test_placement_filter(candidates, said):
    check(reason("PlacementFilter", member(), candidates=frozenset(candidates)), said)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        pytest.param({"cluster_selector": {"az": "a", "region": "r"}}, None, id="all labels of the selector"),
        pytest.param({"cluster_selector": {"az": "a", "region": "x"}}, "region=x does not hold", id="another value"),
        pytest.param({"cluster_selector": {"zone": ""}}, "zone= does not hold", id="absent is not empty"),
        pytest.param({"required": None}, None, id="no required terms"),
        pytest.param({"required": ()}, "no term", id="required terms, and none of them"),
        pytest.param({"required": (term(("az", "In", "a")),)}, None, id="a term that matches"),
        pytest.param({"required": (term(("az", "In", "b")),)}, "no term", id="a term that does not match"),
        pytest.param({"required": (term(("az", "Near")),)}, "invalid term", id="a term that is invalid"),
        pytest.param(
            {"cluster_selector": {"az": "b"}, "required": (term(("az", "In", "a")),)},
            "az=b does not hold",
            id="the selector is not made up for by a term",
        ),
    ],
)
def test_cluster_affinity(fields, said):
    check(reason("ClusterAffinity", member(labels={"az": "a", "region": "r"}), **fields), said)


@pytest.mark.parametrize("ready", ["False", "Unknown", ""], ids=lambda status: f"Ready {status or 'absent'}")
def test_a_cluster_that_is_not_ready_keeps_what_it_has_but_gets_nothing_new(ready):
    cluster = member(ready=ready)
    assert reason("ClusterReady", cluster) == "is not ready"
    assert reason("ClusterReady", cluster, **HERE) is None


@pytest.mark.parametrize("fields", [{}, HERE], ids=["new", "where the object is"])
def test_a_cluster_that_is_being_deleted_is_left_in_any_case(fields):
    assert reason("ClusterTerminating", member(deleting=True), **fields) == "is being deleted"


@pytest.mark.parametrize("fields", [{}, HERE], ids=["new", "where the object is"])
def test_a_cluster_that_migration_keeps_clear_is_left_in_any_case(fields):
    assert reason("ClusterEvicted", member(), evicted=frozenset({"member1"}), **fields) is not None
    assert reason("ClusterEvicted", member(), evicted=frozenset({"member2"}), **fields) is None


@pytest.mark.parametrize(
    ("available", "requests", "said"),
    [
        pytest.param({}, {}, None, id="nothing requested fits even where nothing is left"),
        pytest.param({}, {GPU: 0}, None, id="used up is not overcommitted"),
        pytest.param({"cpu": -1, "memory": 0}, {}, None, id="nothing requested fits where all is overcommitted"),
        pytest.param({"cpu": -1, "memory": 0}, {"cpu": 0}, None, id="and so does a request for nothing"),
        pytest.param({"cpu": -1, "memory": 0}, {GPU: 0}, "cpu", id="but no GPUs are a request all the same"),
        pytest.param({"cpu": 1, "memory": 0, GPU: 4}, {GPU: 4}, None, id="exactly what is left"),
        pytest.param({"cpu": 1, "memory": 0, GPU: 3}, {GPU: 4}, GPU, id="one GPU short"),
        pytest.param({"cpu": "-1m", "memory": 0, GPU: 4}, {GPU: 1}, "cpu", id="an overcommitted cluster"),
        pytest.param({"cpu": "100m", "memory": "1Gi"}, {"cpu": "101m"}, "cpu", id="a millicore short"),
        pytest.param({"cpu": "100m", "memory": "1Gi"}, {"cpu": "100m", "memory": "1Gi"}, None, id="cpu and memory fit"),
        pytest.param({"cpu": 4, "memory": "1Gi"}, {"memory": "2Gi"}, "memory", id="memory is short"),
        pytest.param({"cpu": 4, "memory": 1}, {"ephemeral-storage": "1Ti"}, None, id="storage is never compared"),
        pytest.param({"cpu": 4, "memory": 1}, {"example.com/x": 1}, "example.com/x", id="a resource nobody has"),
        pytest.param({"cpu": 5, "memory": 1}, {"cpu": 1}, "cpu", id="more available than there is counts as all used"),
    ],
)
def test_cluster_resources_fit(available, requests, said):
    cluster = member(allocatable=FOUR, available=available)
    check(reason("ClusterResourcesFit", cluster, requests=requests), said)
    assert reason("ClusterResourcesFit", cluster, requests=requests, **HERE) is None


def test_every_resource_that_is_short_is_named():
    cluster = member(allocatable=FOUR, available={"cpu": -1, "memory": -1, GPU: 0})
    assert reason("ClusterResourcesFit", cluster, requests={GPU: 1}) == f"has insufficient cpu, memory, {GPU}"


def check(given, said):
    if said is None:
        assert given is None
    else:
        assert given is not None
        assert said in given
