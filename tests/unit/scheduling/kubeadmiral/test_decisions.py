import pytest
from builders import cluster
from decisions import asked as binding
from decisions import schedule
from hypothesis import given, settings
from hypothesis import strategies as st
from kubeadmiral_builders import Decided, divided, member, unit
from tables import cases

from berthmaster.model.taint import Toleration
from berthmaster.scheduling.decision import FailureKind
from berthmaster.scheduling.diagnosis import Outcome
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral.profile import DEFAULT_PLUGINS, PluginNames, kubeadmiral_profile
from berthmaster.scheduling.kubeadmiral.unit import Preference, ReplicasStrategy, placed, request_of
from berthmaster.scheduling.scheduler import Scheduler

THREE = [member("A"), member("B"), member("C")]
EVEN = {name: Preference(weight=1) for name in "ABC"}


def clusters_of(asked, clusters=THREE, plugins=DEFAULT_PLUGINS):
    decided = Decided(asked, clusters, plugins)
    assert decided.decision.failure is None
    return decided.clusters


@cases(
    ("asked", "expected"),
    {
        "Duplicate assigns no numbers": (unit(), {"A": None, "B": None, "C": None}),
        "Duplicate respects maxClusters": (unit(replicas=5, max_clusters=2), {"A": None, "B": None}),
        "Divide assigns numbers": (divided(50, preferences=EVEN), {"A": 16, "B": 17, "C": 17}),
        "clusters that get none are left out": (divided(1, preferences=EVEN), {"B": 1}),
        "scaled to 0": (divided(0, preferences=EVEN), {}),
        "only listed clusters": (
            divided(9, preferences={"A": Preference(weight=1), "B": Preference(weight=2)}),
            {"A": 3, "B": 6},
        ),
        "a current cluster without a number has all replicas": (
            divided(6, preferences=EVEN, current={"A": None}, avoid_disruption=True),
            {"A": 6},
        ),
        "negative estimates are ignored, and overflow counts for its cluster": (
            divided(9, preferences=EVEN, estimated_capacity={"A": 1, "B": -1}),
            {"A": 3, "B": 4, "C": 4},
        ),
        "a limit is not exceeded": (divided(9, preferences=EVEN, limited_capacity={"A": 1}), {"A": 1, "B": 4, "C": 4}),
    },
)
def test_decisions(asked, expected):
    assert clusters_of(asked) == expected


@cases(
    ("asked", "clusters", "kind", "message"),
    {
        "no joined cluster, not even a current one": (
            unit(current={"A": 1}),
            [member("A", joined="False"), member("B", joined="Unknown"), member("C", joined="")],
            FailureKind.NO_FIT,
            "none of 3 clusters fits",
        ),
        "no cluster that fits": (unit(), [member(ready="False")], FailureKind.NO_FIT, "none of 1 clusters fits"),
        "maxClusters is negative": (unit(max_clusters=-1), THREE, FailureKind.SELECT_FAILED, "maxClusters is -1"),
    },
)
def test_failures(asked, clusters, kind, message):
    decided = Decided(asked, clusters)
    assert decided.clusters == {}
    assert decided.decision.failure is not None
    assert decided.decision.failure.kind is kind
    assert message in decided.decision.failure.message


def test_all_reasons_are_listed_in_the_order_of_the_filters():
    clusters = [
        member("A", taints=["a:NoSchedule"], ready="False"),
        member("B", ready="False"),
        member("C"),
        member("D", joined="False", ready="False"),
    ]
    decided = Decided(unit(), clusters)
    assert decided.rejections == {
        "A": [("TaintToleration", "has untolerated taint a:NoSchedule"), ("ClusterReady", "is not ready")],
        "B": [("ClusterReady", "is not ready")],
        "D": [("ClusterJoined", "has not joined the federation"), ("ClusterReady", "is not ready")],
    }
    scores = {each.cluster: each.scores for each in decided.diagnosis.clusters if each.scores}
    assert list(scores) == ["C"]
    assert set(scores["C"]) == set(DEFAULT_PLUGINS.scores)


def test_weights_are_listed():
    clusters = Decided(divided(3, preferences=EVEN), THREE).diagnosis.clusters
    assert {each.cluster: each.weight for each in clusters} == {"A": 1, "B": 1, "C": 1}


@cases(
    ("asked", "cluster", "outcome", "message"),
    {
        "not selected": (
            unit(max_clusters=2),
            "C",
            Outcome.NOT_SELECTED,
            "select plugins selected 2 of 3 clusters that fit",
        ),
        "scaled to 0": (divided(0, preferences=EVEN), "A", Outcome.NO_REPLICAS, "the workload requests no replicas"),
    },
)
def test_the_outcome_of_a_cluster_and_its_reason(asked, cluster, outcome, message):
    found = next(each for each in Decided(asked, THREE).diagnosis.clusters if each.cluster == cluster)
    assert found.outcome is outcome
    assert message in found.reason


@cases(
    ("bounds", "reason"),
    {
        "a maximum": (Preference(weight=9, maximum=2), "it has its maxReplicas 2"),
        "a minimum": (Preference(weight=0, minimum=3), "it has its minReplicas 3"),
        "both": (Preference(weight=1, minimum=1, maximum=1), "it has its minReplicas 1 and its maxReplicas 1"),
        "a maximum of 0": (Preference(weight=9, maximum=0), "its maxReplicas is 0"),
        "no bound": (Preference(weight=9), ""),
        "a bound that is not reached": (Preference(weight=1, minimum=1, maximum=8), ""),
    },
)
def test_the_bound_that_a_cluster_meets_is_named(bounds, reason):
    preferences = {"A": bounds, "B": Preference(weight=1), "C": Preference(weight=1)}
    found = next(each for each in Decided(divided(9, preferences=preferences), THREE).diagnosis.clusters)
    assert (found.cluster, found.reason) == ("A", reason)


def test_requests_without_a_unit_are_an_error():
    with pytest.raises(TypeError, match="a Placement was given to KubeAdmiral's profile"):
        schedule([cluster("a")], binding(), kubeadmiral_profile())


@cases(
    ("plugins", "expected"),
    {
        "without select plugins all clusters that fit": (PluginNames(selectors=()), {"C": None, "A": None}),
        "without filters all clusters that joined": (PluginNames(filters=()), {"A": None, "B": None}),
        "without PrioritySort names break ties": (
            PluginNames(selectors=("MaxCluster",), filters=()),
            {"A": None, "B": None},
        ),
        "without scores names decide": (PluginNames(scores=()), {"A": None, "C": None}),
    },
)
def test_plugins_can_be_left_out(plugins, expected):
    clusters = [member("C"), member("B", ready="False"), member("A")]
    assert clusters_of(unit(max_clusters=2), clusters, plugins) == expected


NAMES = [f"member{number}" for number in range(6)]
MEMBERS = st.builds(
    lambda drawn: [member(name, **fields) for name, fields in zip(NAMES, drawn, strict=False)],
    st.lists(
        st.fixed_dictionaries(
            {
                "taints": st.lists(st.sampled_from(["a:NoSchedule", "b:NoExecute", "c:PreferNoSchedule"]), max_size=2),
                "ready": st.sampled_from(["True", "True", "False"]),
                "joined": st.sampled_from(["True", "True", "True", "False"]),
                "deleting": st.sampled_from([False, False, True]),
                "labels": st.sampled_from([{"az": "a"}, {"az": "b"}]),
                "allocatable": st.sampled_from([{}, {"cpu": 8, "memory": 100}, {"cpu": 3, "memory": 100}]),
            }
        ),
        max_size=len(NAMES),
    ),
)
UNITS = st.builds(
    unit,
    divide=st.booleans(),
    replicas=st.integers(0, 40),
    strategy=st.sampled_from(ReplicasStrategy),
    avoid_disruption=st.booleans(),
    max_clusters=st.none() | st.integers(-1, 4),
    cluster_selector=st.sampled_from([{}, {}, {"az": "a"}]),
    tolerations=st.sampled_from([(), (Toleration(key="a", operator="Exists"),)]),
    evicted=st.frozensets(st.sampled_from(NAMES), max_size=1),
    current=st.dictionaries(st.sampled_from(NAMES), st.none() | st.integers(0, 9), max_size=3),
    preferences=st.dictionaries(
        st.sampled_from(NAMES),
        st.builds(
            Preference,
            st.integers(0, 5),
            st.none() | st.integers(5, 20),
            st.none() | st.integers(0, 4),
            st.none() | st.integers(0, 3),
        ),
        max_size=4,
    ),
)


@settings(deadline=None)
@given(st.lists(UNITS, min_size=1, max_size=3), MEMBERS, st.lists(MEMBERS, max_size=3))
def test_a_change_invalidates_the_caches_of_a_scheduler(asked, clusters, changes):
    scheduler = Scheduler(Fleet(clusters), kubeadmiral_profile())
    for changed in [[], *changes]:
        for each in changed:
            scheduler.fleet.apply(each)
        if changed:
            scheduler.fleet.remove(changed[0].name)
        now = [each for each in scheduler.fleet.clusters if each is not None]
        for one in asked:
            assert placed(one, scheduler.schedule(request_of(one))) == Decided(one, now).clusters
