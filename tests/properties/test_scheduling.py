"""Properties of every decision, on small random worlds."""

import oracle
import strategies as draws
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from berthmaster.scheduling.decision import Decision, FailureKind
from berthmaster.scheduling.diagnosis import explain, failures_of
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

divided = st.sampled_from([draws.AGGREGATED, draws.DYNAMIC])
unconstrained = draws.easy_placements(divided)


def decide(clusters, binding) -> Decision:
    return Scheduler(Fleet(clusters), karmada_profile()).schedule(Request.of(binding))


def result_of(decision: Decision):
    return decision.group, decision.assignment, decision.failure.kind.value if decision.failure else None


@settings(max_examples=120)
@given(draws.fleets(max_size=10), draws.bindings())
def test_every_decision_matches_the_oracle(clusters, binding):
    assert result_of(decide(clusters, binding)) == oracle.decide(clusters, binding)


@settings(max_examples=50)
@given(
    draws.fleets(min_size=3, max_size=10),
    draws.bindings(placed=draws.overflowing_placements(), replicas=st.integers(1, 25)),
)
def test_every_decision_with_overflow_matches_the_oracle(clusters, binding):
    assert result_of(decide(clusters, binding)) == oracle.decide(clusters, binding)


@given(draws.fleets(), draws.bindings(placed=draws.placements(scheduling=draws.dividing), replicas=st.integers(1, 9)))
def test_divided_replicas_add_up_to_the_request(clusters, binding):
    decision = decide(clusters, binding)
    assume(decision.failure is None and decision.attempts)
    assert sum(decision.assignment.values()) == binding.spec.replicas
    assert all(replicas > 0 for replicas in decision.assignment.values())


@given(
    draws.fleets(),
    draws.bindings(
        placed=draws.placements(scheduling=st.sampled_from([None, draws.DUPLICATED])), replicas=st.integers(1, 9)
    ),
)
def test_a_duplicated_workload_has_all_replicas_on_every_selected_cluster(clusters, binding):
    decision = decide(clusters, binding)
    assume(decision.failure is None and decision.attempts and not decision.attempts[-1].group.overflow)
    selected = decision.attempts[-1].selected.names()
    assert decision.assignment == dict.fromkeys(selected, binding.spec.replicas)


@given(draws.fleets(), draws.bindings())
def test_a_rejected_cluster_gets_no_replicas(clusters, binding):
    scheduler = Scheduler(Fleet(clusters), karmada_profile())
    request = Request.of(binding)
    decision = scheduler.schedule(request)
    assume(decision.failure is None and decision.attempts)
    placement = binding.spec.placement
    term = next((each for each in placement.cluster_affinities or () if each.affinity_name == decision.group), None)
    fitting = {each.name for each in clusters if oracle.passes(each, binding, placement, term)}
    assert set(decision.assignment) <= fitting


@given(draws.fleets(), draws.bindings(), st.randoms(use_true_random=False))
def test_the_order_of_the_clusters_has_no_effect(clusters, binding, random):
    assert result_of(decide(clusters, binding)) == result_of(decide(random.sample(clusters, len(clusters)), binding))


@given(draws.fleets(), draws.bindings(placed=unconstrained, fresh=False), st.integers(1, 9))
def test_scaling_up_never_takes_replicas_from_a_cluster(clusters, binding, more):
    first = decide(clusters, binding)
    assume(first.failure is None and first.attempts)
    placed = draws.placed(binding, first, replicas=binding.spec.replicas + more)
    second = decide(clusters, placed)
    assume(second.failure is None and second.group == first.group)
    assert all(second.assignment.get(name, 0) >= replicas for name, replicas in first.assignment.items())


@given(draws.fleets(), draws.bindings(placed=unconstrained, replicas=st.integers(1, 9), fresh=False))
def test_an_assignment_that_was_applied_is_stable(clusters, binding):
    first = decide(clusters, binding)
    assume(first.failure is None and first.attempts)
    again = decide(clusters, draws.placed(binding, first, replicas=binding.spec.replicas))
    assert result_of(again) == result_of(first)


@given(
    draws.fleets(),
    draws.bindings(placed=draws.placements(scheduling=draws.static_weights, spread=st.just([])), fresh=False),
    draws.fleets(min_size=10, max_size=10),
)
def test_static_weights_ignore_the_current_assignment(clusters, binding, elsewhere):
    """The current assignment has no effect if no filter exempts current clusters."""
    tolerant = replace(
        binding.spec.placement,
        cluster_tolerations=(draws.TOLERATE_ALL,),
        cluster_affinities=None,
        cluster_affinity=None,
    )
    serving = [replace(each, status=replace(each.status, api_enablements=draws.SERVES_ALL)) for each in clusters]
    settled = replace(binding, spec=replace(binding.spec, placement=tolerant))
    moved = {each.name: index for index, each in enumerate(elsewhere)}
    assert result_of(decide(serving, settled)) == result_of(decide(serving, draws.at(settled, moved)))


@given(draws.fleets(), draws.bindings())
def test_only_a_workload_that_fits_no_cluster_loses_its_assignment(clusters, binding):
    decision = decide(clusters, binding)
    assert decision.clears_assignment == (decision.failure is not None and decision.failure.kind is FailureKind.NO_FIT)


@settings(max_examples=40)
@given(draws.fleets(), draws.bindings(replicas=st.integers(0, 99)))
def test_the_failures_of_groups_agree_with_the_explanation_of_all_clusters(clusters, binding):
    scheduler, request = Scheduler(Fleet(clusters), karmada_profile()), Request.of(binding)
    decision = scheduler.schedule(request)
    explained = [each for each in explain(scheduler, request, decision).groups if each.failure is not None]
    expected = [
        (each.group, each.failure, each.rejected_by() if each.failure.kind is FailureKind.NO_FIT else [])
        for each in explained
    ]
    assert failures_of(scheduler, request, decision) == expected


@settings(max_examples=50)
@given(st.data())
def test_a_scheduler_decides_after_updates_as_a_new_one(data):
    world = {each.name: each for each in data.draw(draws.fleets(max_size=10))}
    bindings = data.draw(st.lists(draws.bindings(), min_size=1, max_size=3))
    scheduler = Scheduler(Fleet(world.values()), karmada_profile())
    for _ in range(data.draw(st.integers(1, 5))):
        change(scheduler.fleet, world, data)
        for binding in bindings:
            assert result_of(scheduler.schedule(Request.of(binding))) == result_of(decide(world.values(), binding))


def change(fleet: Fleet, world, data):
    name = data.draw(st.sampled_from(draws.NAMES))
    if data.draw(st.integers(0, 3)):
        world[name] = data.draw(draws.clusters(name))
        fleet.apply(world[name])
    else:
        world.pop(name, None)
        fleet.remove(name)
