"""Partial node lists: a pod does not reach a later group too early, and is not held forever."""

import pytest
from kube_scheduler_builders import Service, group, node, pod, with_nodes
from retained import retained

from extender.protocols.kube_scheduler import KubeSchedulerOptions
from extender.protocols.kube_scheduler.memory import HoldCounter

GOLD, SILVER = group("primary", tier="gold"), group("backup", tier="silver")
SILVERS = [f"s{index:03}" for index in range(250)]
LARGE = [node("g1", tier="gold"), *(node(name, tier="silver") for name in SILVERS)]
SMALL = [node("g1", tier="gold"), node("s1", tier="silver"), node("s2", tier="silver")]
WANTED = pod(GOLD, SILVER)


def kept(answer):
    return answer["NodeNames"] or []


class TestSamples:
    def test_fewer_than_a_hundred_nodes_are_never_a_sample(self):
        assert kept(Service(LARGE).filter(WANTED, SILVERS[:99])) == SILVERS[:99]

    def test_a_sample_without_the_first_group_holds_the_pod(self):
        answer = Service(LARGE).filter(WANTED, SILVERS[:100])
        assert answer["Error"] == (
            "berthmaster: 100 of 251 nodes were offered, with only nodes of cluster group backup; g1 is preferred "
            "and may have enough resources, for annotation; the pod is retried"
        )

    def test_a_sample_with_a_node_of_the_first_group_is_enough(self):
        assert kept(Service(LARGE).filter(WANTED, [*SILVERS[:100], "g1"])) == ["g1"]

    def test_after_enough_samples_for_all_nodes_the_next_group_applies(self):
        service = Service(LARGE)
        answers = [service.filter(WANTED, SILVERS[:100]) for _ in range(4)]
        assert [bool(answer["Error"]) for answer in answers] == [True, True, True, False]
        assert [decision[2] for decision in service.metrics.calls_of("decided")] == ["held", "held", "held", "placed"]

    def test_holds_are_counted_for_each_pod(self):
        service = Service(LARGE)
        for _ in range(4):
            service.filter(WANTED, SILVERS[:100])
        assert service.filter(pod(GOLD, SILVER, name="web-2"), SILVERS[:100])["Error"]

    def test_a_node_without_free_resources_does_not_hold_the_pod(self):
        full = [node("g1", tier="gold", cpu="50m"), *LARGE[1:]]
        assert len(kept(Service(full).filter(WANTED, SILVERS[:100]))) == 100

    def test_a_node_without_the_labels_of_the_node_selector_does_not_hold_the_pod(self):
        selective = pod(GOLD, SILVER, node_selector={"tier": "silver"})
        assert len(kept(Service(LARGE).filter(selective, SILVERS[:100]))) == 100
        assert Service(LARGE).filter(pod(GOLD, SILVER, node_selector={"tier": "gold"}), SILVERS[:100])["Error"]

    def test_a_tainted_node_does_not_hold_the_pod(self):
        tainted = node("g1", tier="gold", taints=[{"key": "k", "effect": "NoSchedule"}])
        assert len(kept(Service([tainted, *LARGE[1:]]).filter(WANTED, SILVERS[:100]))) == 100

    def test_complete_lists_are_not_samples(self):
        options = KubeSchedulerOptions(lists_are_complete=True)
        assert len(kept(Service(LARGE, options=options).filter(WANTED, SILVERS[:100]))) == 100

    def test_a_list_of_all_known_nodes_is_not_a_sample(self):
        everything = [each["metadata"]["name"] for each in LARGE]
        assert kept(Service(LARGE).filter(WANTED, everything)) == ["g1"]

    def test_a_sample_without_any_group_holds_the_pod(self):
        answer = Service(LARGE).filter(pod(GOLD), SILVERS[:100])
        assert "with no node that may take the pod; g1 is preferred" in answer["Error"]

    def test_known_nodes_hold_a_pod_with_whole_nodes(self):
        service = Service(LARGE)
        assert service.filter_nodes(WANTED, LARGE[1:101])["Error"]

    def test_a_fleet_of_other_nodes_does_not_hold_the_pod(self):
        service = Service([node("g1", tier="gold"), node("member1", tier="gold")])
        assert service.filter_nodes(WANTED, LARGE[1:101])["Error"] == ""


class TestNominatedNode:
    """After preemption the first call offers only the nominated node. A refusal starts a search of all nodes."""

    NOMINATED = pod(GOLD, SILVER, nominated="s1")

    def test_it_is_refused_while_a_preferred_node_may_have_free_resources(self):
        answer = Service(SMALL).filter(self.NOMINATED, ["s1"])
        assert "g1 is preferred" in answer["Error"]

    def test_the_following_search_decides(self):
        service = Service(SMALL)
        service.filter(self.NOMINATED, ["s1"])
        assert kept(service.filter(self.NOMINATED, ["g1", "s1", "s2"])) == ["g1"]

    def test_it_is_accepted_if_the_search_finds_no_other_node(self):
        service = Service(SMALL)
        service.filter(self.NOMINATED, ["s1"])
        assert kept(service.filter(self.NOMINATED, ["s1"])) == ["s1"]

    def test_the_next_attempt_starts_again(self):
        service = Service(SMALL)
        service.filter(self.NOMINATED, ["s1"])
        service.clock.pass_by(60)
        assert service.filter(self.NOMINATED, ["s1"])["Error"]

    def test_a_node_of_the_first_group_is_accepted_at_once(self):
        assert kept(Service(SMALL).filter(pod(GOLD, SILVER, nominated="g1"), ["g1"])) == ["g1"]

    def test_a_single_node_that_was_not_nominated_is_a_complete_list(self):
        assert kept(Service(SMALL).filter(WANTED, ["s1"])) == ["s1"]

    def test_a_final_rejection_is_not_a_hold(self):
        answer = Service(SMALL).filter(pod(GOLD, nominated="s1"), ["s1"])
        assert answer["Error"] == ""
        assert list(answer["FailedAndUnresolvableNodes"]) == ["s1"]

    def test_whole_nodes_without_a_known_fleet_are_a_complete_list(self):
        answer = Service(None).ask("filter", with_nodes(self.NOMINATED, SMALL[1:2]))
        assert answer["Error"] == ""
        assert len(answer["Nodes"]["items"]) == 1


@pytest.mark.parametrize(
    ("offered", "known", "nominated", "times"),
    [
        pytest.param(100, 101, False, 2, id="two samples for a few more nodes than one sample"),
        pytest.param(100, 1000, False, 10, id="ten samples for ten times as many nodes"),
        pytest.param(1, 1000, True, 1, id="a nominated node is refused once"),
    ],
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
