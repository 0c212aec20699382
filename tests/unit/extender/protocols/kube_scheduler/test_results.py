"""Prioritize: scores from 0 to 10. Preempt: candidates of the first group."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kube_scheduler_builders import Service, group, node, pod, with_names, with_nodes

from extender.protocols.kube_scheduler.nodes import REJECTED, NodeScore
from extender.protocols.kube_scheduler.results import MAX_SCORE, host_scores

GOLD, SILVER = group("primary", tier="gold"), group("backup", tier="silver")
FLEET = [
    node("g1", tier="gold", cpu="8"),
    node("g2", tier="gold", cpu="4"),
    node("s1", tier="silver", cpu="8"),
    node("b1", tier="bronze", cpu="8"),
]
NAMES = [each["metadata"]["name"] for each in FLEET]


def weighted(**weights: int):
    rules = [{"targetCluster": {"clusterNames": [name]}, "weight": weight} for name, weight in weights.items()]
    return {
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {"staticWeightList": rules},
        }
    }


@pytest.mark.parametrize(
    ("wanted", "scores"),
    [
        pytest.param(pod(), [0, 0, 0, 0], id="a pod without a placement"),
        pytest.param(pod(GOLD), [10, 5, 0, 0], id="available replicas decide inside a group, in proportion"),
        pytest.param(pod(GOLD, SILVER), [10, 8, 5, 0], id="an earlier group scores higher"),
        pytest.param(
            pod(placement=weighted(g1=1, g2=3)),
            [4, 10, 1, 1],
            id="static weights take precedence over available replicas",
        ),
        pytest.param(pod(placement="{"), [0, 0, 0, 0], id="an invalid annotation"),
    ],
)
@pytest.mark.parametrize("shape", ["names", "nodes"])
def test_scores_of_nodes(wanted, scores, shape):
    body = with_names(wanted, NAMES) if shape == "names" else with_nodes(wanted, FLEET)
    answer = Service(FLEET).ask("prioritize", body)
    assert answer == [{"Host": name, "Score": score} for name, score in zip(NAMES, scores, strict=True)]


node_scores = st.lists(
    st.builds(
        NodeScore,
        rank=st.one_of(st.integers(0, 20), st.integers(REJECTED, REJECTED + 2)),
        score=st.integers(0, 100),
        weight=st.integers(0, 2**62),
        available=st.integers(0, 2**31 - 1),
    ),
    max_size=30,
)


@given(node_scores)
def test_scores_are_integers_from_0_to_10_and_0_is_for_rejected_nodes(found):
    scores = host_scores(found)
    assert all(isinstance(each, int) and 0 <= each <= MAX_SCORE for each in scores)
    assert all((score == 0) == (each.rank >= REJECTED) for score, each in zip(scores, found, strict=True))


@given(node_scores)
def test_no_higher_rank_scores_above_a_lower_rank(found):
    scored = [(each.rank, score) for each, score in zip(found, host_scores(found), strict=True) if each.rank < REJECTED]
    for rank, score in scored:
        assert all(score <= other for earlier, other in scored if earlier < rank)


@given(node_scores, st.randoms())
def test_the_order_of_nodes_changes_no_score(found, draw):
    order = list(range(len(found)))
    draw.shuffle(order)
    shuffled = host_scores([found[position] for position in order])
    assert shuffled == [host_scores(found)[position] for position in order]


def victims(*uids: str, violations: int = 0):
    return {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}


def whole_victims(*uids: str, violations: int = 0):
    return {
        "Pods": [{"metadata": {"name": uid, "uid": uid}, "spec": {"containers": None}} for uid in uids],
        "NumPDBViolations": violations,
    }


def preempt(service, wanted, shape, candidates):
    key = "NodeNameToMetaVictims" if shape is victims else "NodeNameToVictims"
    args = {"Pod": wanted, "NodeNameToVictims": None, "NodeNameToMetaVictims": None, key: candidates}
    return service.ask("preempt", json.dumps(args).encode())["NodeNameToMetaVictims"]


@pytest.mark.parametrize("shape", [victims, whole_victims])
@pytest.mark.parametrize(
    ("wanted", "candidates", "allowed"),
    [
        pytest.param(
            pod(), ["g1", "b1", "elsewhere"], ["g1", "b1", "elsewhere"], id="without a placement all candidates"
        ),
        pytest.param(pod(GOLD, SILVER), ["g2", "s1", "b1"], ["g2"], id="candidates of the first group"),
        pytest.param(pod(GOLD, SILVER), ["s1", "b1"], ["s1"], id="candidates of the next group if the first has none"),
        pytest.param(pod(GOLD), ["s1"], [], id="no rejected node"),
        pytest.param(pod(GOLD), ["g1", "new"], ["g1"], id="no unknown node"),
        pytest.param(pod(placement="{"), ["g1"], [], id="none with an invalid placement"),
        pytest.param(pod(GOLD), [], [], id="no candidates"),
    ],
)
def test_candidates(shape, wanted, candidates, allowed):
    answer = preempt(Service(FLEET), wanted, shape, {name: shape("v1", "v2", violations=1) for name in candidates})
    assert answer == {name: victims("v1", "v2", violations=1) for name in allowed}


def test_without_a_fleet_the_nodes_of_recent_requests_are_known():
    service = Service(None)
    asked = {name: whole_victims("v1") for name in NAMES}
    assert preempt(service, pod(GOLD, SILVER), whole_victims, asked) == {}
    service.filter_nodes(pod(SILVER), FLEET)
    assert list(preempt(service, pod(GOLD, SILVER), whole_victims, asked)) == ["g1", "g2"]


@pytest.mark.parametrize("nothing", [None, victims(), {"Pods": None}])
def test_a_node_without_victims_is_not_a_candidate(nothing):
    assert preempt(Service(FLEET), pod(), victims, {"g1": nothing, "g2": victims("v")}) == {"g2": victims("v")}
