import numpy as np
import pytest
from kubeadmiral_builders import CONFIG_MAPS, Decided, member, term, unit
from tables import cases

from berthmaster.scheduling.decision import FailureKind
from berthmaster.scheduling.kubeadmiral.filter_plugins import DEFAULT_FILTERS, FILTERS
from berthmaster.scheduling.kubeadmiral.profile import PluginNames
from berthmaster.scheduling.kubeadmiral.score_plugins import scaled_to_best

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


@cases(
    ("cluster", "fields", "message"),
    {
        "another kind": (member(serves=[CONFIG_MAPS]), {}, "does not serve apps/v1 Deployment"),
        "another version": (member(), {"api_version": "apps/v1beta1"}, "does not serve apps/v1beta1"),
        "another kind on a current cluster": (member(serves=[]), HERE, "does not serve"),
        "a kind of the core group": (member(), {"api_version": "v1", "kind": "ConfigMap"}, None),
    },
)
def test_api_resources(cluster, fields, message):
    check(reason("APIResources", cluster, **fields), message)


@cases(
    ("taints", "fields", "message"),
    {
        "NoSchedule rejects new objects": (["a:NoSchedule"], {}, "a:NoSchedule"),
        "NoSchedule lets an object stay": (["a:NoSchedule"], HERE, None),
    },
)
def test_taint_toleration(taints, fields, message):
    check(reason("TaintToleration", member(taints=taints), **fields), message)


@cases(
    ("fields", "message"),
    {
        "all labels of the selector": ({"cluster_selector": {"az": "a", "region": "r"}}, None),
        "another value": ({"cluster_selector": {"az": "a", "region": "x"}}, "region=x does not match"),
        "a missing label is not an empty one": ({"cluster_selector": {"zone": ""}}, "zone= does not match"),
        "no required terms": ({"required": None}, None),
        "an empty list of required terms": ({"required": ()}, "no term"),
        "a term that matches": ({"required": (term(("az", "In", "a")),)}, None),
        "a term that does not match": ({"required": (term(("az", "In", "b")),)}, "no term"),
        "an invalid term": ({"required": (term(("az", "Near")),)}, "invalid term"),
        "a matching term does not replace the selector": (
            {"cluster_selector": {"az": "b"}, "required": (term(("az", "In", "a")),)},
            "az=b does not match",
        ),
    },
)
def test_cluster_affinity(fields, message):
    check(reason("ClusterAffinity", member(labels={"az": "a", "region": "r"}), **fields), message)


@cases("fields", {"new": {}, "current": HERE})
def test_a_cluster_that_is_being_deleted_is_always_rejected(fields):
    assert reason("ClusterTerminating", member(deleting=True), **fields) == "is being deleted"


@cases(
    ("available", "requests", "message"),
    {
        "no request fits without free capacity": ({}, {}, None),
        "full use is not overcommitment": ({}, {GPU: 0}, None),
        "no request fits an overcommitted cluster": ({"cpu": -1, "memory": 0}, {}, None),
        "a request for 0 fits an overcommitted cluster": ({"cpu": -1, "memory": 0}, {"cpu": 0}, None),
        "a request for 0 GPUs counts as a request": ({"cpu": -1, "memory": 0}, {GPU: 0}, "cpu"),
        "exactly the free amount": ({"cpu": 1, "memory": 0, GPU: 4}, {GPU: 4}, None),
        "one GPU short": ({"cpu": 1, "memory": 0, GPU: 3}, {GPU: 4}, GPU),
        "an overcommitted cluster": ({"cpu": "-1m", "memory": 0, GPU: 4}, {GPU: 1}, "cpu"),
        "a millicore short": ({"cpu": "100m", "memory": "1Gi"}, {"cpu": "101m"}, "cpu"),
        "cpu and memory fit": ({"cpu": "100m", "memory": "1Gi"}, {"cpu": "100m", "memory": "1Gi"}, None),
        "memory is short": ({"cpu": 4, "memory": "1Gi"}, {"memory": "2Gi"}, "memory"),
        "storage is never compared": ({"cpu": 4, "memory": 1}, {"ephemeral-storage": "1Ti"}, None),
        "a resource that no cluster has": ({"cpu": 4, "memory": 1}, {"example.com/x": 1}, "example.com/x"),
        "more available than allocatable counts as fully used": ({"cpu": 5, "memory": 1}, {"cpu": 1}, "cpu"),
    },
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


def scores(name, *clusters, **fields):
    (attempt,) = Decided(unit(**fields), clusters, PluginNames((), (name,), ())).decision.attempts
    return attempt.candidates.scores.tolist()


@cases(
    ("preferred", "expected"),
    {
        "no term": ([], [0, 0]),
        "one term": ([(10, term(("az", "In", "a")))], [100, 0]),
        "weights add up": ([(10, term(("az", "In", "a"))), (30, term(("az", "Exists")))], [100, 75]),
        "an invalid term of weight 0 is ignored": ([(0, term(("az", "Near")))], [0, 0]),
        "a term with only fields matches nothing": ([(10, term(fields=[("metadata.name", "In", "a")]))], [0, 0]),
        "fields do not count": ([(10, term(("az", "In", "a"), fields=[("metadata.name", "In", "b")]))], [100, 0]),
        "an empty term matches no cluster": ([(10, term())], [0, 0]),
    },
)
def test_preferred_terms(preferred, expected):
    clusters = [member("a", labels={"az": "a"}), member("b", labels={"az": "b"})]
    assert scores("ClusterAffinity", *clusters, preferred=tuple(preferred)) == expected


def test_an_invalid_preferred_term_fails_the_attempt():
    asked = unit(preferred=((1, term(("az", "Near"))),))
    failure = Decided(asked, [member()], PluginNames((), ("ClusterAffinity",), ())).decision.failure
    assert failure.kind is FailureKind.SELECT_FAILED
    assert "unknown operator 'Near'" in failure.message


@cases(
    ("given", "expected"),
    {
        "only negative counts are not scaled": ([-3, -1], [-3, -1]),
        "with a positive count negative ones are rounded toward zero": ([-1, 3], [-33, 100]),
        "no taints": ([], []),
    },
)
def test_normalisation(given, expected):
    assert scaled_to_best(np.array(given, dtype=np.int64)).tolist() == expected
