"""Placements that are too large are refused in the form of each verb, and the work of a request is bounded."""

import json

import pytest
from kube_scheduler_builders import Service, group, node, pod, with_names

from berthmaster.model.cluster import Node, cluster_of_node
from berthmaster.model.decode import convert
from berthmaster.model.validation import DEFAULT_LIMITS
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.work import Work
from extender.protocols.kube_scheduler import KubeSchedulerOptions, nodes
from extender.protocols.kube_scheduler.nodes import RequestNodes, members_of, rank_of
from extender.protocols.kube_scheduler.placements import PlacementFinder, request_of
from extender.protocols.kube_scheduler.wire import Pod
from extender.protocols.problem import Refusal

FLEET = [node(f"n{index}") for index in range(30)]
NAMES = [each["metadata"]["name"] for each in FLEET]
MANY = pod(*(group(f"g{index}", f"n{29 - index}") for index in range(20)))


def service(**limits):
    return Service(FLEET, options=KubeSchedulerOptions(limits=DEFAULT_LIMITS._replace(**limits)))


LIMITS = [
    pytest.param({"groups": 19}, "clusterAffinities: 20 groups; at most 19 are scheduled", id="a limit"),
    pytest.param({"steps": 1000}, "the decision takes more than 1,000 steps", id="the steps of a decision"),
]


@pytest.mark.parametrize(("limits", "message"), LIMITS)
def test_filter_returns_the_error(limits, message):
    for answer in (service(**limits).filter(MANY, NAMES), service(**limits).filter_nodes(MANY, FLEET)):
        assert message in answer["Error"]
        assert not answer["NodeNames"]


@pytest.mark.parametrize(("limits", "message"), LIMITS)
def test_prioritize_gives_every_node_0_and_counts_a_doubt(limits, message):
    asked = service(**limits)
    answer = asked.ask("prioritize", with_names(MANY, NAMES))
    assert {each["Score"] for each in answer} == {0}, message
    assert asked.metrics.calls_of("doubted") == [("kube-scheduler", "unreadable")]


@pytest.mark.parametrize(("limits", "message"), LIMITS)
def test_preempt_evicts_no_pod(limits, message):
    victims = {name: {"Pods": [{"UID": "u"}]} for name in NAMES}
    body = json.dumps({"Pod": MANY, "NodeNameToMetaVictims": victims}).encode()
    assert service(**limits).ask("preempt", body) == {"NodeNameToMetaVictims": {}}, message


def test_the_deadline_is_checked_between_groups():
    asked = service()
    asked.clock.pass_by(1e9)
    for names in (NAMES, None):
        with pytest.raises(Refusal, match="not ready in time"):
            asked.filter(MANY, NAMES) if names else asked.filter_nodes(MANY, FLEET)


def test_many_groups_and_nodes_are_ranked_by_columns_with_the_same_result(monkeypatch):
    clusters = [cluster_of_node(convert(Node, each)) for each in FLEET]
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
