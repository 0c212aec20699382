"""Reviews of changes: refused after a few decisions, before the plans of people, and never judged by a part."""

import threading
import time
from contextlib import ExitStack

import pytest
from extender_services import WatchedPlane
from karmada_plane import DIVIDED, binding, cluster, deployment, policy, selector, serve_karmada, store
from kube_in_memory import KubeInMemory
from tables import cases
from waiting import LIMIT_S, wait_for

from berthmaster.model.decode import convert, decode_json
from berthmaster.native_api.what_if import ChangeReview, PlanAnswer, PlanRequest
from berthmaster.native_api.wire import NOT_READY
from berthmaster.runtime.clock import SystemClock
from extender.protocols.native import review
from extender.protocols.native.plan import Planner
from extender.protocols.native.review import PlanReviewer
from extender.protocols.problem import Refusal
from extender.protocols.reviews_first import PAUSE_S, ReviewsFirst
from extender.protocols.services import Call

WORKLOADS = 260
"""More than a plan that is always computed in full."""
LIMITS = {"moved": 50, "percent": 20, "lost": 0}
CLUSTERS = [f"member{number}" for number in range(6)]


def placed(*names):
    return {**DIVIDED, "clusterAffinity": {"clusterNames": list(names)}}


HOLDER = policy("web", selector(), placement=placed(*CLUSTERS[:3]))


class Plane(WatchedPlane):
    """A service that watches one policy with all workloads."""

    def __init__(self):
        super().__init__(KubeInMemory(), clock=SystemClock())
        serve_karmada(self.api)
        store(self.api, *map(cluster, CLUSTERS), HOLDER)
        for number in range(WORKLOADS):
            template = deployment(f"app{number}", 1, by=HOLDER)
            store(self.api, template, binding(template, HOLDER, **{CLUSTERS[number % 3]: 1}))
        self.planner = Planner()
        self.reviewer = PlanReviewer(self.planner)
        self.start()

    def review(self, changed, *, within_s=LIMIT_S, limits=LIMITS, **request):
        request = {"change": {"type": "set", "policy": changed}, "limits": limits, **request}
        call = Call("1", self.clock.monotonic_s() + within_s)
        return self.reviewer.review(self.services, call, convert(ChangeReview, request))

    def assigned(self, name):
        """Where a workload is, by the namespace and name of its binding."""
        known = self.state.workload(tuple(name.split("/")))
        return known.workload.binding.assignment

    def plan(self, **request):
        call = Call("1", self.clock.monotonic_s() + LIMIT_S)
        return decode_json(PlanAnswer, self.planner.plan(self.services, call, convert(PlanRequest, request)))


@pytest.fixture(scope="module")
def shared():
    made = Plane()
    yield made
    made.stop()


@pytest.fixture
def plane(shared):
    """The plane, without the plans of earlier reviews."""
    shared.reviewer = PlanReviewer(shared.planner)
    yield shared
    for each in [*shared.reviewer._plans._plans.values()]:  # noqa: SLF001 - what a test began must not delay the next one
        each.made.result(LIMIT_S)


def moved(*names, **spec):
    return policy("web", selector(), placement=placed(*names), **spec)


ALL_MOVE = moved(*CLUSTERS[3:])
NONE_MOVES = moved(*CLUSTERS[:4])
"""The same clusters, and one more that no workload needs."""


def test_the_largest_change_is_refused_after_a_few_decisions(plane):
    answer = plane.review(ALL_MOVE)
    assert (answer.moved, answer.concerned, answer.workloads) == (51, WORKLOADS, WORKLOADS)
    assert (answer.id, answer.complete, answer.planning) == ("", False, False)
    assert answer.worst[0].leaves
    assert answer.worst[0].reaches


@cases(("names", "planned"), {"planned": (60, True), "counted": (WORKLOADS, False)})
def test_a_review_counts_what_a_policy_may_take_over(plane, names, planned):
    """No record says that preemption is on. Karmada's gate may be on all the same, and no API shows it."""
    taker = policy("taker", *(selector(name=f"app{number}") for number in range(names)), placement=placed(CLUSTERS[5]))
    taker["spec"] |= {"preemption": "Always", "priority": 9}
    answer = plane.review(taker, change={"type": "set", "policy": taker, "creates": True})
    assert answer.moved == (60 if planned else 51)
    assert (bool(answer.id), answer.assumes_preemption) == (planned, True)


def test_the_id_of_a_review_is_that_of_a_plan_with_preemption(plane):
    taker = policy("taker", selector(name="app1"), placement=placed(CLUSTERS[5]))
    taker["spec"] |= {"preemption": "Always", "priority": 9}
    answer = plane.review(taker, change={"type": "set", "policy": taker, "creates": True})
    assert answer.id == plane.plan(create=[taker], preemption="on").plan.id


@cases(
    ("changed", "limits"),
    {
        "nothing moves": (NONE_MOVES, LIMITS),
        "no gate": (ALL_MOVE, None),
        "a wide limit": (ALL_MOVE, {"moved": WORKLOADS}),
    },
)
def test_a_change_within_the_limits_is_planned_in_full(plane, changed, limits):
    answer, planned = plane.review(changed, limits=limits), plane.plan(update=[changed])
    assert answer.id == planned.plan.id
    counts = planned.counts
    assert (answer.moved, answer.replicas, answer.lost, answer.short, answer.deleted_copies, answer.concerned) == (
        counts.moved, counts.replicas, counts.lost, counts.short, counts.deleted_copies, counts.concerned,
    )  # fmt: skip
    assert answer.complete


def test_movers_at_the_end_of_the_world_are_found_first(plane):
    """The clusters of the last workloads are left out, and everything else stays."""
    answer = plane.review(moved(*CLUSTERS[1:3]))
    assert answer.moved == 51
    assert {each.leaves[0] for each in answer.worst} == {CLUSTERS[0]}


def test_lost_workloads_end_the_review(plane):
    answer = plane.review(moved("member9"), limits={"lost": 0, "moved": 1000})
    assert answer.lost + answer.short > 0


def test_the_answer_grows_with_time(plane, monkeypatch):
    monkeypatch.setattr(review, "_TURN_STEPS", 100)
    # The plan of the whole change is not ready in time, however fast the machine is.
    monkeypatch.setattr(plane.reviewer._plans, "result", lambda *_: None)  # noqa: SLF001 - the plan must take longer than the test, however fast the machine is
    answer = plane.review(ALL_MOVE, timeoutMs=500, dryRun=True)
    assert (answer.id, answer.complete) == ("", False)
    assert 0 < answer.moved <= 50


def test_what_takes_too_long_is_planned_for_the_next_review(plane, monkeypatch):
    monkeypatch.setattr(review, "_TURN_STEPS", 0)
    first = plane.review(NONE_MOVES, timeoutMs=30)
    assert (first.id, first.planning) == ("", True)
    expected = plane.plan(update=[NONE_MOVES]).plan.id
    assert plane.review(NONE_MOVES).id == expected, "it waits for the plan"


@cases("accepts", {"within the limits": False, "accepted by its id": True})
def test_a_plan_of_another_fleet_is_made_again(plane, monkeypatch, accepts):
    monkeypatch.setattr(review, "_TURN_STEPS", 0)
    first = plane.review(NONE_MOVES, accepts=accepts)
    assert (first.moved, bool(first.id)) == (0, True)
    template = deployment("app0", 1, by=HOLDER)
    store(plane.api, binding(template, HOLDER, **{CLUSTERS[5]: 1}))
    moved_away = f"shop/{template['metadata']['name']}-deployment"
    plane.wait(lambda: plane.assigned(moved_away) == {CLUSTERS[5]: 1})
    again = plane.review(NONE_MOVES, accepts=accepts)
    assert again.moved == 1
    assert again.id not in {"", first.id}
    assert plane.review(NONE_MOVES, accepts=accepts).id == again.id
    store(plane.api, binding(template, HOLDER, **{CLUSTERS[0]: 1}))
    plane.wait(lambda: plane.assigned(moved_away) == {CLUSTERS[0]: 1})


def test_a_review_waits_for_the_change_that_the_one_before_it_let_pass(plane):
    heir = policy("heir", selector(), placement=placed(*CLUSTERS[:3]))
    changed = {**heir, "spec": {**heir["spec"], "placement": placed(*CLUSTERS[3:])}}
    store(plane.api, heir)
    plane.wait(lambda: len(plane.state.world().policies) == 2)
    assert plane.review(changed).moved == 0
    late = threading.Timer(0.05, lambda: store(plane.api, changed))
    late.start()
    named = {"kind": "PropagationPolicy", "namespace": "shop", "name": "web"}
    assert plane.review(None, change={"type": "delete", "policy": named}).moved == 51
    late.join()
    plane.api.remove(plane.api.served.path(heir))
    plane.wait(lambda: len(plane.state.world().policies) == 1)


def test_a_change_that_is_never_stored_delays_the_next_review_for_a_moment(plane):
    assert plane.review(NONE_MOVES).moved == 0
    begun_s = time.monotonic()
    assert plane.review(ALL_MOVE).moved == 51
    assert time.monotonic() - begun_s >= 0.1
    assert plane.review(NONE_MOVES, dryRun=True).moved == 0


def test_a_heartbeat_keeps_a_plan(plane, monkeypatch):
    monkeypatch.setattr(review, "_TURN_STEPS", 0)
    first = plane.review(NONE_MOVES)
    version = plane.state.version
    store(plane.api, cluster(CLUSTERS[0]))
    plane.wait(lambda: plane.state.version != version)
    monkeypatch.setattr(plane.planner, "plan", None)
    assert plane.review(NONE_MOVES) == first


def test_an_accepted_plan_is_computed_however_large(plane):
    answer = plane.review(ALL_MOVE, accepts=True)
    assert answer.id == plane.plan(update=[ALL_MOVE]).plan.id
    assert answer.moved == WORKLOADS


def test_dry_runs_do_not_queue_long_plans(plane, monkeypatch):
    monkeypatch.setattr(review, "_TURN_STEPS", 0)
    with plane.planner._policies_turn:  # noqa: SLF001 - the plan must take longer than the test, however fast the machine is
        monkeypatch.setattr("extender.protocols.native.plan._STEPS", 0)
        assert plane.review(NONE_MOVES, timeoutMs=30).planning
        assert not plane.review(moved(*CLUSTERS[:5]), timeoutMs=30, dryRun=True).planning
        assert plane.review(moved(*CLUSTERS[:6]), timeoutMs=30).planning
    assert plane.review(NONE_MOVES).id, "it waits for the plan"
    assert plane.review(moved(*CLUSTERS[:6])).id


def test_a_dry_run_gives_way_to_a_change_that_would_be_stored(plane, monkeypatch):
    real = review.review_plan
    with ExitStack() as stack:

        def beside_a_change(*given, **named):
            stack.enter_context(plane.services.reviews.stored())
            return real(*given, **named)

        monkeypatch.setattr(review, "review_plan", beside_a_change)
        answer = plane.review(NONE_MOVES, dryRun=True)
    assert (answer.id, answer.planning) == ("", False)
    monkeypatch.undo()
    assert plane.review(NONE_MOVES, dryRun=True).id


def test_the_plan_of_a_dry_run_ends_for_a_change_that_would_be_stored(plane, monkeypatch):
    monkeypatch.setattr(review, "_TURN_STEPS", 0)
    with plane.planner._policies_turn:  # noqa: SLF001 - the plan must take longer than the test
        monkeypatch.setattr("extender.protocols.native.plan._STEPS", 0)
        assert plane.review(NONE_MOVES, dryRun=True, timeoutMs=300).planning
        (under_way,) = plane.reviewer._plans._plans.values()  # noqa: SLF001
    with plane.services.reviews.stored():
        assert under_way.made.result(LIMIT_S) is None
    assert plane.review(NONE_MOVES).id


def test_reviews_do_not_wait_for_plans_of_people(plane):
    with plane.planner._policies_turn:  # noqa: SLF001 - the plan must take longer than the test, however fast the machine is
        assert plane.review(ALL_MOVE).moved == 51


def test_a_policy_that_is_not_known_is_no_fault_of_the_service(plane):
    unknown = policy("unknown", selector(), placement=placed(CLUSTERS[0]))
    with pytest.raises(Refusal) as refused:
        plane.review(unknown, within_s=0.1)
    assert (refused.value.status, refused.value.kind) == (409, "about:blank")


@cases(("by_objects", "kind"), {"the server": (False, NOT_READY), "stored objects": (True, "about:blank")})
def test_a_stale_service_says_whether_it_cannot_reach_its_source(plane, by_objects, kind):
    """A gate may let changes pass while the source is unreachable, and never because of what users store."""
    plane.state.mark_stale("the watch ended", plane.clock.now(), by_objects=by_objects)
    try:
        with pytest.raises(Refusal) as refused:
            plane.review(ALL_MOVE)
    finally:
        plane.state.mark_current(plane.clock.now())
    assert (refused.value.status, refused.value.kind) == (503, kind)


def test_a_plan_of_people_does_not_pause_while_it_keeps_reviews_from_the_index(plane):
    """Each step of it would pause for the review that waits for it."""
    plane.plan(update=[ALL_MOVE])
    with plane.services.reviews.judging():
        begun_s = time.monotonic()
        plane.plan(update=[ALL_MOVE])
        assert time.monotonic() - begun_s < WORKLOADS * PAUSE_S / 2


def test_a_user_has_half_of_the_long_plans(plane, monkeypatch):
    monkeypatch.setattr(review, "_TURN_STEPS", 0)
    with plane.planner._policies_turn:  # noqa: SLF001 - the plans must take longer than the test
        monkeypatch.setattr("extender.protocols.native.plan._STEPS", 0)
        changes = [moved(*CLUSTERS[:4], priority=number) for number in range(6)]
        of_one = [plane.review(each, timeoutMs=30, user="mallory").planning for each in changes]
        assert of_one == [True] * 4 + [False] * 2
        assert plane.review(changes[-1], timeoutMs=30, user="alice").planning


def test_long_computations_pause_for_reviews_and_go_on():
    first, steps = ReviewsFirst(), []
    stop = threading.Event()

    def compute():
        while not stop.is_set():
            first.pause()
            steps.append(time.monotonic())

    thread = threading.Thread(target=compute)
    with first.judging():
        begun_s = time.monotonic()
        thread.start()
        wait_for(lambda: len(steps) >= 3)
        beside, passed_s = len(steps), time.monotonic() - begun_s
    wait_for(lambda: len(steps) > 100 * max(1, beside), lambda: len(steps))
    stop.set()
    thread.join(60)
    assert beside <= passed_s / PAUSE_S + 1, "one step in each pause"
