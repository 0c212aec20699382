import pytest
from builders import cluster
from decisions import asked, spread, static

from berthmaster.model.placement_limits import DEFAULT_LIMITS
from berthmaster.scheduling.decision import FailureKind
from berthmaster.scheduling.diagnosis import explain
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.scheduling.steps import TooLargeError, Work

CLUSTERS = [
    cluster(f"m{index}", region=f"r{index % 5}", labels={"n": str(index)}, taints=["a:PreferNoSchedule"])
    for index in range(50)
]


def groups(count, **each):
    return [{"affinityName": f"g{index}", "clusterNames": [f"absent{index}"], **each} for index in range(count)]


def request(count=3):
    return Request.of(asked(groups=groups(count)))


def scheduler(**limits):
    return Scheduler(Fleet(CLUSTERS), karmada_profile(limits=DEFAULT_LIMITS._replace(**limits)))


def steps(schedule, asked_for):
    work = Work()
    schedule.schedule(asked_for, work)
    return work.steps


def test_a_placement_above_a_limit_fails_with_the_field():
    decision = scheduler(groups=2).schedule(request(3))
    assert decision.failure.kind is FailureKind.TOO_LARGE
    assert str(decision.failure).startswith("spec.placement.clusterAffinities: 3 groups; at most 2 are scheduled")
    assert (decision.attempts, decision.assignment, decision.clears_assignment) == ([], {}, False)


def test_a_decision_above_the_steps_fails_as_a_whole():
    decision = scheduler(steps=4000).schedule(request(3))
    assert decision.failure.kind is FailureKind.TOO_LARGE
    assert str(decision.failure).startswith("the decision takes more than 4,000 steps; ")
    assert (decision.attempts, decision.assignment) == ([], {})


@pytest.mark.parametrize("limits", [{"groups": 2}, {"steps": 100}])
def test_a_decision_that_is_too_large_is_explained_without_groups(limits):
    small = scheduler(**limits)
    decision = small.schedule(request(3))
    assert explain(small, request(3), decision).groups == []


def test_steps_grow_with_groups_and_do_not_depend_on_caches():
    one = scheduler()
    first, again = steps(one, request(40)), steps(one, request(40))
    assert first == again == steps(scheduler(), request(40))
    assert 1.9 < first / steps(one, request(20)) < 2.1


@pytest.mark.parametrize(
    "placement",
    [
        pytest.param({"spread": [spread("region", 2, 3)]}, id="regions"),
        pytest.param({"scheduling": static(*((f"m{index}", index) for index in range(50)))}, id="many static weights"),
        pytest.param({"groups": [{"affinityName": "a", "overflowAffinities": groups(50)}]}, id="much overflow"),
        pytest.param({"clusterAffinity": {"labelSelector": {"matchExpressions": [{"key": "n", "operator": "Exists"}]}}},
                     id="a selector"),
        pytest.param({"clusterAffinity": {"labelSelector": {"matchExpressions": [{"key": "n", "operator": "NotIn",
                     "values": [str(index) for index in range(50)]}]}}}, id="many values"),
        pytest.param({"clusterAffinity": {"clusterNames": [f"m{index}" for index in range(50)]}}, id="many names"),
        pytest.param({"clusterTolerations": [{"key": f"k{index}"} for index in range(50)]}, id="many tolerations"),
    ],
)  # fmt: skip
def test_what_makes_a_decision_slow_takes_steps(placement):
    assert steps(scheduler(), Request.of(asked(**placement))) > 50 + steps(scheduler(), Request.of(asked()))


def test_the_caller_can_end_a_decision_before_each_group():
    calls = []

    def check():
        calls.append(1)
        if len(calls) == 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        scheduler().schedule(request(10), Work(check=check))
    assert len(calls) == 3


def test_work_within_the_limit_is_only_counted():
    work = Work(10)
    work.spend(10)
    with pytest.raises(TooLargeError):
        work.spend(1)


@pytest.mark.parametrize("values", [[], ["a"], ["a", "b"], ["1", "2"]], ids=lambda values: f"{len(values)} values")
@pytest.mark.parametrize("operator", ["Equals", "Gt", "", "in"])
def test_a_zone_with_an_operator_that_is_not_supported_matches_no_cluster(operator, values):
    """Stored objects may have any operator. One of them must not end the decisions on all others."""
    expression = {"key": "zone", "operator": operator, "values": values}
    wrong = asked(clusterAffinity={"fieldSelector": {"matchExpressions": [expression]}})
    one = Scheduler(Fleet([*CLUSTERS, cluster("zoned", zones=["a", "1"])]), karmada_profile())
    decision = one.schedule(Request.of(wrong))
    assert decision.failure.kind is FailureKind.NO_FIT
    assert len(explain(one, Request.of(wrong), decision).groups[0].clusters) == 51
