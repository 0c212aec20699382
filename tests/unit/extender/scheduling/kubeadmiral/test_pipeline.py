import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubeadmiral_builders import divided, member, term, unit

from extender.scheduling.decision import FailureKind
from extender.scheduling.kubeadmiral.pipeline import DEFAULT_PLUGINS, PluginNames, first_rejection, schedule
from extender.scheduling.kubeadmiral.unit import Preference, ReplicasStrategy
from fleet.model.taint import Toleration

THREE = [member("A"), member("B"), member("C")]
EVEN = {name: Preference(weight=1) for name in "ABC"}


def clusters_of(asked, clusters=THREE, plugins=DEFAULT_PLUGINS):
    decision = schedule(asked, clusters, plugins)
    assert decision.failure is None
    return dict(decision.clusters)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(unit(), {"A": None, "B": None, "C": None}, id="Duplicate assigns no numbers"),
        pytest.param(
            unit(replicas=5, max_clusters=2), {"A": None, "B": None}, id="to as many clusters as there may be"
        ),
        pytest.param(unit(max_clusters=0), {}, id="which may be none"),
        pytest.param(divided(50, preferences=EVEN), {"A": 16, "B": 17, "C": 17}, id="Divide assigns numbers"),
        pytest.param(divided(1, preferences=EVEN), {"B": 1}, id="clusters that get none are left out"),
        pytest.param(divided(0, preferences=EVEN), {}, id="scaled to 0 it is nowhere"),
        pytest.param(divided(0, preferences=EVEN, current={"A": 3}), {}, id="not even where it was"),
        pytest.param(divided(5, max_clusters=0), {}, id="Divide to no cluster"),
        pytest.param(divided(10, preferences=EVEN, max_clusters=2), {"A": 5, "B": 5}, id="maxClusters limits division"),
        pytest.param(
            divided(9, preferences={"A": Preference(weight=1), "B": Preference(weight=2)}),
            {"A": 3, "B": 6},
            id="only clusters that are listed",
        ),
        pytest.param(
            divided(10, strategy=ReplicasStrategy.BINPACK, preferences={**EVEN, "C": Preference(0, 6, priority=1)}),
            {"C": 6, "A": 4},
            id="Binpack fills by priority",
        ),
        pytest.param(
            divided(4, preferences={"A": Preference(weight=0), "B": Preference(weight=0, minimum=1)}),
            {"B": 1},
            id="weights of 0 place minima alone",
        ),
        pytest.param(
            divided(6, preferences=EVEN, current={"A": None}, avoid_disruption=True),
            {"A": 6},
            id="a cluster that had all of them keeps them: no number counts as all",
        ),
        pytest.param(
            divided(9, preferences=EVEN, estimated_capacity={"A": 1, "B": -1}),
            {"A": 3, "B": 4, "C": 4},
            id="negative estimates are none, and what is cut off stays in the number",
        ),
        pytest.param(
            divided(9, preferences=EVEN, limited_capacity={"A": 1}), {"A": 1, "B": 4, "C": 4}, id="a limit is hard"
        ),
    ],
)
def test_where_it_goes(asked, expected):
    assert clusters_of(asked) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, {"A": 2, "B": 9}, id="keeps what it has and gets no more"),
        pytest.param({"tolerations": (Toleration(operator="Exists"),)}, {"A": 5, "B": 6}, id="unless it is tolerated"),
        pytest.param({"current": {"A": 9, "B": 2}}, {"A": 5, "B": 6}, id="may lose some"),
        pytest.param({"current": {"A": None}}, {"A": 5, "B": 6}, id="no number is all of them"),
    ],
)
def test_a_cluster_with_a_taint_that_is_not_tolerated(fields, expected):
    clusters = [member("A", taints=["a:NoSchedule"]), member("B")]
    preferences = {name: Preference(weight=1) for name in "AB"}
    asked = divided(11, **{"preferences": preferences, "current": {"A": 2}, **fields})
    assert clusters_of(asked, clusters) == expected


@pytest.mark.parametrize("current", [{"A": 2, "gone": 7}, {"A": None}], ids=["numbers", "no numbers"])
def test_a_sticky_one_stays_exactly_as_it_is(current):
    decision = schedule(divided(99, sticky=True, current=current, max_clusters=-1), [member("B", joined="False")])
    assert decision.clusters == current
    assert decision.sticky


def test_a_sticky_one_is_placed_once():
    decision = schedule(divided(3, sticky=True, preferences={"A": Preference(weight=1)}), THREE)
    assert decision.clusters == {"A": 3}
    assert not decision.sticky


@pytest.mark.parametrize(
    ("asked", "clusters", "kind", "said"),
    [
        pytest.param(unit(), [], FailureKind.NO_FIT, "there are no joined clusters", id="no cluster"),
        pytest.param(
            unit(current={"A": 1}),
            [member("A", joined="False"), member("B", joined="Unknown"), member("C", joined="")],
            FailureKind.NO_FIT,
            "there are no joined clusters",
            id="no cluster that joined, even where it is",
        ),
        pytest.param(
            unit(), [member(ready="False")], FailureKind.NO_FIT, "none of 1 clusters fits", id="no cluster that fits"
        ),
        pytest.param(
            unit(max_clusters=-1), THREE, FailureKind.SELECT_FAILED, "maxClusters is -1", id="maxClusters is negative"
        ),
        pytest.param(
            unit(preferred=((1, term(("az", "Near"))),)),
            THREE,
            FailureKind.SELECT_FAILED,
            "unknown operator 'Near'",
            id="a preferred term is invalid",
        ),
    ],
)
def test_nothing_is_decided(asked, clusters, kind, said):
    decision = schedule(asked, clusters)
    assert decision.clusters == {}
    assert decision.failure is not None
    assert decision.failure.kind is kind
    assert said in decision.failure.message


def test_the_first_reason_counts():
    clusters = [member("A", taints=["a:NoSchedule"], ready="False"), member("B", ready="False"), member("C")]
    decision = schedule(unit(), clusters)
    assert decision.rejections == {
        "A": ("TaintToleration", "has untolerated taint a:NoSchedule"),
        "B": ("ClusterReady", "is not ready"),
    }
    assert list(decision.scores) == ["C"]
    assert set(decision.scores["C"]) == set(DEFAULT_PLUGINS.scores)


def test_weights_are_told():
    assert schedule(divided(3, preferences=EVEN), THREE).weights == {"A": 1, "B": 1, "C": 1}


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        pytest.param(PluginNames(selectors=()), {"C": None, "A": None}, id="without select plugins all that fit"),
        pytest.param(PluginNames(filters=()), {"A": None, "B": None}, id="without filters all that joined"),
        pytest.param(
            PluginNames(selectors=("MaxCluster",), filters=()), {"C": None, "B": None}, id="not sorted by name"
        ),
        pytest.param(
            PluginNames(scores=()), {"A": None, "C": None}, id="without scores all are equal and names decide"
        ),
    ],
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
@given(UNITS, MEMBERS, st.randoms())
def test_what_always_holds(asked, clusters, random):
    decision = schedule(asked, clusters)
    if dynamic(asked):
        # Which of several largest weights takes the rounding difference is by the order of clusters.
        asked = dataclasses.replace(asked, divide=False)
        decision = schedule(asked, clusters)
    shuffled = schedule(asked, random.sample(clusters, len(clusters)))
    assert dict(shuffled.clusters) == dict(decision.clusters)
    assert (shuffled.failure is None) == (decision.failure is None)
    fitting = {each.name for each in clusters if each.name in decision.scores}
    assert all(
        first_rejection(asked, each, DEFAULT_PLUGINS.filters) is None for each in clusters if each.name in fitting
    )
    assert set(decision.clusters) <= fitting
    assert not set(decision.clusters) & set(decision.rejections)
    if asked.max_clusters is not None and decision.failure is None:
        assert len(decision.clusters) <= asked.max_clusters


def dynamic(asked):
    return asked.divide and all(each.weight is None for each in asked.preferences.values())
