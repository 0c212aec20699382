"""Results, held requests, and bounds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kube_scheduler_builders import Service, group, node, pod, with_names, with_nodes
from retained import retained
from tables import cases

from berthmaster.model.cluster_node import Node, cluster_of_node
from berthmaster.model.decode import convert
from berthmaster.model.placement_limits import DEFAULT_LIMITS
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.steps import Work
from extender.protocols.kube_scheduler import KubeSchedulerOptions, nodes
from extender.protocols.kube_scheduler.handlers import HoldCounter
from extender.protocols.kube_scheduler.nodes import REJECTED, NodeScore, RequestNodes, members_of, rank_of
from extender.protocols.kube_scheduler.placements import PlacementFinder, request_of
from extender.protocols.kube_scheduler.verbs import MAX_SCORE, host_scores
from extender.protocols.kube_scheduler.wire import Pod
from extender.protocols.problem import Refusal

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


@cases(
    ("wanted", "scores"),
    {
        "a pod without a placement": (pod(), [0, 0, 0, 0]),
        "available replicas decide inside a group, in proportion": (pod(GOLD), [10, 5, 0, 0]),
        "an earlier group scores higher": (pod(GOLD, SILVER), [10, 8, 5, 0]),
        "static weights take precedence over available replicas": (pod(placement=weighted(g1=1, g2=3)), [4, 10, 1, 1]),
        "an invalid annotation": (pod(placement="{"), [0, 0, 0, 0]),
    },
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
@cases(
    ("wanted", "candidates", "allowed"),
    {
        "without a placement all candidates": (pod(), ["g1", "b1", "elsewhere"], ["g1", "b1", "elsewhere"]),
        "candidates of the first group": (pod(GOLD, SILVER), ["g2", "s1", "b1"], ["g2"]),
        "candidates of the next group if the first has none": (pod(GOLD, SILVER), ["s1", "b1"], ["s1"]),
        "no rejected node": (pod(GOLD), ["s1"], []),
        "no unknown node": (pod(GOLD), ["g1", "new"], ["g1"]),
        "none with an invalid placement": (pod(placement="{"), ["g1"], []),
        "no candidates": (pod(GOLD), [], []),
    },
)
def test_candidates(shape, wanted, candidates, allowed):
    answer = preempt(Service(FLEET), wanted, shape, {name: shape("v1", "v2", violations=1) for name in candidates})
    assert answer == {name: victims("v1", "v2", violations=1) for name in allowed}


def test_without_a_fleet_the_nodes_of_recent_requests_are_known():
    service = Service(None)
    asked = {name: whole_victims("v1") for name in NAMES}
    service.filter_nodes(pod(SILVER), FLEET)
    assert list(preempt(service, pod(GOLD, SILVER), whole_victims, asked)) == ["g1", "g2"]


def test_without_any_node_of_a_request_kube_scheduler_chooses():
    """Full nodes are in no filter request, so a fresh extender cannot know them."""
    service = Service(None)
    asked = {name: whole_victims("v1") for name in NAMES}
    assert list(preempt(service, pod(GOLD, SILVER), whole_victims, asked)) == NAMES
    service.filter_nodes(pod(SILVER), FLEET[2:])
    assert list(preempt(service, pod(GOLD), whole_victims, asked)) == ["g1", "g2"], "known nodes of no group are not"


def test_a_null_is_not_a_candidate():
    assert preempt(Service(FLEET), pod(), victims, {"g1": None, "g2": victims("v")}) == {"g2": victims("v")}


@pytest.mark.parametrize("nothing", [victims(), {"Pods": None}])
def test_a_node_that_needs_no_eviction_stays_a_candidate(nothing):
    for wanted in (pod(), pod(GOLD, SILVER)):
        assert preempt(Service(FLEET), wanted, victims, {"g1": nothing}) == {"g1": victims()}
    some = {"g1": nothing, "g2": victims("v"), "s1": victims("v")}
    assert preempt(Service(FLEET), pod(GOLD, SILVER), victims, some) == {"g2": victims("v")}


SILVERS = [f"s{index:03}" for index in range(250)]
LARGE = [node("g1", tier="gold"), *(node(name, tier="silver") for name in SILVERS)]
SMALL = [node("g1", tier="gold"), node("s1", tier="silver"), node("s2", tier="silver")]
WANTED = pod(GOLD, SILVER)


def kept(answer):
    return answer["NodeNames"] or []


FULL = [node("g1", tier="gold", cpu="50m"), *LARGE[1:]]
REPELLING = [node("g1", tier="gold", taints=[{"key": "k", "effect": "NoSchedule"}]), *LARGE[1:]]
COMPLETE = KubeSchedulerOptions(lists_are_complete=True)
SAMPLE = SILVERS[:100]
HELD = (
    "berthmaster: 100 of 251 nodes were offered, with only nodes of cluster group backup; g1 is preferred "
    "and may have enough resources, for annotation; the pod is retried"
)


def test_preemption_is_held_while_a_node_of_an_earlier_group_was_not_among_the_candidates():
    service, asked = Service(LARGE), {name: victims("v") for name in SAMPLE}
    answers = [preempt(service, WANTED, victims, asked) for _ in range(4)]
    assert [list(each) for each in answers] == [[], [], [], SAMPLE]
    assert [decision[2] for decision in service.metrics.calls_of("decided")] == ["held"] * 3 + ["allowed"]


@cases(
    ("service", "wanted", "candidates", "allowed"),
    {
        "a candidate of the first group": (Service(LARGE), WANTED, [*SAMPLE, "g1"], ["g1"]),
        "fewer candidates than a sample has": (Service(LARGE), WANTED, SAMPLE[:99], SAMPLE[:99]),
        "complete lists": (Service(LARGE, options=COMPLETE), WANTED, SAMPLE, SAMPLE),
        "a better node that is too small": (Service(FULL), WANTED, SAMPLE, SAMPLE),
        "a better node that the pod excludes": (
            Service(LARGE), pod(GOLD, SILVER, node_selector={"tier": "silver"}), SAMPLE, SAMPLE,
        ),
        "no candidate that a group accepts": (Service(LARGE), pod(GOLD), SAMPLE, []),
    },
)  # fmt: skip
def test_preemption_with_a_list_of_candidates(service, wanted, candidates, allowed):
    assert list(preempt(service, wanted, victims, {name: victims("v") for name in candidates})) == allowed


def terms(*found):
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(found)}}}


def expressions(*found):
    return {"matchExpressions": [dict(zip(("key", "operator", "values"), each, strict=False)) for each in found]}


def names(operator, *values):
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}


@cases(
    ("affinity", "held"),
    {
        "excludes the better node": (terms(expressions(("tier", "NotIn", ["gold"]))), False),
        "names the better node's label": (terms(expressions(("tier", "In", ["gold", "x"]))), True),
        "needs a label that it lacks": (terms(expressions(("zone", "Exists"))), False),
        "needs a label to be absent": (terms(expressions(("zone", "DoesNotExist"))), True),
        "any term is enough": (terms(expressions(("zone", "Exists")), expressions(("tier", "Exists"))), True),
        "all expressions of a term": (terms(expressions(("tier", "Exists"), ("zone", "Exists"))), False),
        "compares numbers": (terms(expressions(("tier", "Gt", ["1"]))), False),
        "names the node": (terms(names("In", "g1")), True),
        "excludes the node by name": (terms(names("NotIn", "g1")), False),
        "an empty term matches nothing": (terms({}), False),
        "an unknown operator matches nothing": (terms(expressions(("tier", "Near", ["gold"]))), False),
        "a preference excludes nothing": (
            {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
            True,
        ),
    },
)
def test_the_required_node_affinity_of_a_pod_rules_out_better_nodes(affinity, held):
    wanted = pod(GOLD, SILVER)
    wanted["spec"]["affinity"] = affinity
    assert bool(Service(LARGE).filter(wanted, SAMPLE)["Error"]) is held


def selecting(tier):
    return pod(GOLD, SILVER, node_selector={"tier": tier})


def nominated(name, *groups):
    """After preemption the first call offers only the nominated node. A refusal starts a search of all nodes."""
    return pod(*(groups or (GOLD, SILVER)), nominated=name)


@cases(
    ("service", "wanted", "offered", "expected"),
    {
        "fewer than a hundred nodes": (Service(LARGE), WANTED, SILVERS[:99], SILVERS[:99]),
        "a sample without the first group": (Service(LARGE), WANTED, SAMPLE, HELD),
        "a sample with a node of the first group": (Service(LARGE), WANTED, [*SAMPLE, "g1"], ["g1"]),
        "a better node without free resources": (Service(FULL), WANTED, SAMPLE, SAMPLE),
        "a better node without the labels of the selector": (Service(LARGE), selecting("silver"), SAMPLE, SAMPLE),
        "a better node with the labels of the selector": (Service(LARGE), selecting("gold"), SAMPLE, HELD),
        "a better node with a taint": (Service(REPELLING), WANTED, SAMPLE, SAMPLE),
        "complete lists": (Service(LARGE, options=COMPLETE), WANTED, SAMPLE, SAMPLE),
        "all known nodes": (Service(LARGE), WANTED, [each["metadata"]["name"] for each in LARGE], ["g1"]),
        "a sample without any group": (
            Service(LARGE), pod(GOLD), SAMPLE,
            HELD.replace("only nodes of cluster group backup", "no node that may take the pod"),
        ),
        "a nominated node, while a preferred one may be free": (
            Service(SMALL), nominated("s1"), ["s1"], HELD.replace("100 of 251", "1 of 3"),
        ),
        "a nominated node of the first group": (Service(SMALL), nominated("g1"), ["g1"], ["g1"]),
        "a single node that was not nominated": (Service(SMALL), WANTED, ["s1"], ["s1"]),
        "a nominated node that no group accepts": (Service(SMALL), nominated("s1", GOLD), ["s1"], []),
    },
)  # fmt: skip
def test_a_sample_without_better_nodes_holds_the_pod(service, wanted, offered, expected):
    answer = service.filter(wanted, offered)
    assert (answer["Error"] or kept(answer)) == expected


@cases(
    ("known", "nodes", "held"),
    {
        "of the known fleet": (LARGE, LARGE[1:101], True),
        "of another fleet": ([node("g1", tier="gold"), node("member1", tier="gold")], LARGE[1:101], False),
        "a nominated one without a known fleet": (None, SMALL[1:2], False),
    },
)
def test_whole_nodes_hold_the_pod_if_they_are_a_sample_of_the_known_fleet(known, nodes, held):
    answer = Service(known).filter_nodes(nominated("s1"), nodes)
    assert bool(answer["Error"]) is held
    assert held or len(answer["Nodes"]["items"]) == len(nodes)


def test_after_enough_samples_for_all_nodes_the_next_group_applies_to_this_pod():
    service = Service(LARGE)
    answers = [service.filter(WANTED, SAMPLE) for _ in range(4)]
    assert [bool(answer["Error"]) for answer in answers] == [True, True, True, False]
    assert [decision[2] for decision in service.metrics.calls_of("decided")] == ["held", "held", "held", "placed"]
    assert service.filter(pod(GOLD, SILVER, name="web-2"), SAMPLE)["Error"]


@cases(
    ("passed_s", "offered", "expected"),
    {
        "the search that follows decides": (0, ["g1", "s1", "s2"], ["g1"]),
        "it is accepted if the search finds no other node": (0, ["s1"], ["s1"]),
        "the next attempt starts again": (60, ["s1"], []),
    },
)
def test_a_refused_nominated_node(passed_s, offered, expected):
    service = Service(SMALL)
    service.filter(nominated("s1"), ["s1"])
    service.clock.pass_by(passed_s)
    answer = service.filter(nominated("s1"), offered)
    assert (kept(answer), bool(answer["Error"])) == (expected, not expected)


@cases(
    ("offered", "known", "nominated", "times"),
    {
        "two samples for a few more nodes than one sample": (100, 101, False, 2),
        "ten samples for ten times as many nodes": (100, 1000, False, 10),
        "a nominated node is refused once": (1, 1000, True, 1),
    },
)
def test_the_number_of_holds_is_limited(offered, known, nominated, times):
    counter = HoldCounter()
    holds = [
        counter.try_hold("pod", offered=offered, known=known, nominated=nominated, now_s=0.0) for _ in range(times + 1)
    ]
    assert holds == [True] * times + [False]


def test_the_memory_of_holds_is_bounded():
    holds = HoldCounter()
    for index in range(20_000):
        holds.try_hold(f"pod-{index}", offered=100, known=200, nominated=False, now_s=0.0)
        if index == 16_384:
            full = retained(holds)
    assert retained(holds) <= full


BOUNDS_FLEET = [node(f"n{index}") for index in range(30)]
BOUNDS_NAMES = [each["metadata"]["name"] for each in BOUNDS_FLEET]
MANY = pod(*(group(f"g{index}", f"n{29 - index}") for index in range(20)))


def service(**limits):
    return Service(BOUNDS_FLEET, options=KubeSchedulerOptions(limits=DEFAULT_LIMITS._replace(**limits)))


LIMITS = [
    pytest.param({"groups": 19}, "clusterAffinities: 20 groups; at most 19 are scheduled", id="a limit"),
    pytest.param({"steps": 1000}, "the decision takes more than 1,000 steps", id="the steps of a decision"),
]


@pytest.mark.parametrize(("limits", "message"), LIMITS)
def test_filter_returns_the_error(limits, message):
    for answer in (service(**limits).filter(MANY, BOUNDS_NAMES), service(**limits).filter_nodes(MANY, BOUNDS_FLEET)):
        assert message in answer["Error"]
        assert not answer["NodeNames"]


@pytest.mark.parametrize(("limits", "message"), LIMITS)
def test_prioritize_gives_every_node_0_and_counts_a_doubt(limits, message):
    asked = service(**limits)
    answer = asked.ask("prioritize", with_names(MANY, BOUNDS_NAMES))
    assert {each["Score"] for each in answer} == {0}, message
    assert asked.metrics.calls_of("doubted") == [("kube-scheduler", "unreadable")]


@pytest.mark.parametrize(("limits", "message"), LIMITS)
def test_preempt_evicts_no_pod(limits, message):
    victims = {name: {"Pods": [{"UID": "u"}]} for name in BOUNDS_NAMES}
    body = json.dumps({"Pod": MANY, "NodeNameToMetaVictims": victims}).encode()
    assert service(**limits).ask("preempt", body) == {"NodeNameToMetaVictims": {}}, message


def test_the_deadline_is_checked_between_groups():
    asked = service()
    asked.clock.pass_by(1e9)
    for names in (BOUNDS_NAMES, None):
        with pytest.raises(Refusal, match="not ready in time"):
            asked.filter(MANY, BOUNDS_NAMES) if names else asked.filter_nodes(MANY, BOUNDS_FLEET)


def test_many_groups_and_nodes_are_ranked_by_columns_with_the_same_result(monkeypatch):
    clusters = [cluster_of_node(convert(Node, each)) for each in BOUNDS_FLEET]
    asked = convert(Pod, MANY)
    request = request_of(asked, PlacementFinder().find(asked, []).placement)
    members = members_of(KubeSchedulerOptions().members)

    def ranked(few):
        monkeypatch.setattr(nodes, "_FEW", few)
        shown = RequestNodes(clusters, karmada_profile(), members)
        found = shown.ranked(request)
        reasons = [shown.rejection(found, position) for position in range(10, 30) if found.ranks[position] > 2**61]
        assert found.ranks == [rank_of(found.groups, each) for each in clusters]
        return shown._columns is not None, found.ranks, shown.scores(request, found), reasons  # noqa: SLF001 - both ways give the same answers

    (columns, *by_columns), (called, *by_calls) = ranked(16), ranked(1000)
    assert (columns, called) == (True, False)
    assert by_columns == by_calls


def test_the_steps_of_a_request_grow_with_its_groups_and_not_with_their_square():
    def steps(count):
        asked = convert(Pod, pod(*(group(f"g{index}", f"n{index}") for index in range(count))))
        request = request_of(asked, PlacementFinder().find(asked, []).placement)
        clusters = [cluster_of_node(convert(Node, node(f"n{index}"))) for index in range(count)]
        work = Work()
        RequestNodes(clusters, karmada_profile(), members_of(KubeSchedulerOptions().members)).ranked(request, work)
        return work.steps

    assert steps(400) < 2.5 * steps(200)
