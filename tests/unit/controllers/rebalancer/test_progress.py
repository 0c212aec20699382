"""The decided status of a rebalancer, its events, and the page."""

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rebalancing import CREATED, LATER, item, rebalancer, workload
from tables import cases

from berthmaster.controllers.rbac import RULES
from berthmaster.controllers.rebalancer.progress import BindingMissing, Marked, NotMarked, decide_progress, working_list
from berthmaster.controllers.rebalancer.rebalance_events import mark_event, progress_events
from berthmaster.controllers.registry import REGISTRY
from berthmaster.kube.events import Reference
from berthmaster.model.decode import builtins, convert
from berthmaster.model.errors import ApiError
from berthmaster.model.rebalancer import RebalancedWorkload, RebalancerStatus, WorkloadRebalancer

NOW = LATER + timedelta(milliseconds=700)
NOT_MARKED = NotMarked(ApiError(500, "InternalError", "no"))


def value(name: str, **more: str) -> RebalancedWorkload:
    return convert(RebalancedWorkload, workload(name, **more))


def listed(one: WorkloadRebalancer) -> list[tuple[str, str]]:
    return [(each.workload.name, each.result) for each in working_list(one)]


@cases(
    ("one", "expected"),
    {
        "the workloads of the spec, sorted": (rebalancer(["b", "a"]), [("a", ""), ("b", "")]),
        "a duplicate once": (rebalancer(["a", "a"]), [("a", "")]),
        "an added workload beside present results": (
            rebalancer(["b", "a"], [item("b", "Successful")]),
            [("a", ""), ("b", "Successful")],
        ),
        "a removed workload that succeeded": (
            rebalancer(["a"], [item("a", "Successful"), item("b", "Successful")]),
            [("a", "Successful"), ("b", "Successful")],
        ),
        "no removed workload that failed or was not done": (
            rebalancer(["a"], [item("a", "Successful"), item("b", "Failed"), item("c")]),
            [("a", "Successful")],
        ),
        "a duplicate of the status once, with its success": (
            rebalancer(["a"], [item("a", "Failed"), item("a", "Successful"), item("a")]),
            [("a", "Successful")],
        ),
        "the same name with and without a namespace twice": (
            rebalancer([workload("a", namespace=""), workload("a")], [item("a", "Successful")]),
            [("a", ""), ("a", "Successful")],
        ),
    },
)
def test_the_working_list_contains(one, expected):
    assert listed(one) == expected


def test_the_order_is_bytewise_by_api_version_kind_namespace_and_name():
    expected = [
        workload("z", kind="Deployment", api_version="apps/v1"),
        workload("b", kind="StatefulSet", api_version="apps/v1", namespace=""),
        workload("a", kind="StatefulSet", api_version="apps/v1", namespace="bank"),
        workload("B", kind="StatefulSet", api_version="apps/v1"),
        workload("a", kind="StatefulSet", api_version="apps/v1"),
        workload("é", kind="StatefulSet", api_version="apps/v1"),
        workload("a", kind="Job", api_version="batch/v1"),
    ]
    one = rebalancer(list(reversed(expected)))
    assert [builtins(each.workload) for each in working_list(one)] == expected


@cases(
    ("outcome", "result", "reason"),
    {
        "marked: successful": (Marked(), "Successful", ""),
        "marked without effect: successful": (Marked(scheduled_later_at=LATER), "Successful", ""),
        "no binding: failed": (BindingMissing(), "Failed", "ReferencedBindingNotFound"),
        "not marked: open": (NOT_MARKED, "", ""),
        "not tried: open": (None, "", ""),
    },
)
def test_the_result_of_an_outcome(outcome, result, reason):
    outcomes = {} if outcome is None else {value("web"): outcome}
    [found] = decide_progress(rebalancer(["web"]), outcomes, NOW).status.observed_workloads
    assert (found.result, found.reason) == (result, reason)


def test_a_failure_is_not_tried_again():
    before = rebalancer(["web"], [item("web", "Failed")], finished=LATER)
    found = decide_progress(before, {value("web"): Marked()}, NOW)
    assert (found.status, found.changed) == (before.status, False)


FINISHED = LATER - timedelta(minutes=1)
DONE = [item("web", "Successful")]


@pytest.mark.parametrize(
    ("before", "outcomes", "finish_time", "changed", "open_"),
    [
        pytest.param(rebalancer(), {"web": Marked()}, LATER, True, [], id="set in whole seconds when all are done"),
        pytest.param(rebalancer(), {"web": BindingMissing()}, LATER, True, [], id="set when all have failed"),
        pytest.param(rebalancer(), {"web": NOT_MARKED}, None, True, ["web"], id="not set while one is open"),
        pytest.param(
            rebalancer(observed=[item("web")]), {"web": NOT_MARKED}, None, False, ["web"],
            id="nothing is written while one is open and listed",
        ),
        pytest.param(rebalancer(observed=DONE, finished=FINISHED), {}, FINISHED, False, [], id="kept without a change"),
        pytest.param(
            rebalancer(["web", "api"], DONE, finished=FINISHED, generation=2, observed_generation=1),
            {"api": Marked()}, LATER, True, [], id="moved when an added workload is done",
        ),
        pytest.param(
            rebalancer(["web", "api"], DONE, finished=FINISHED, generation=2, observed_generation=1),
            {"api": NOT_MARKED}, FINISHED, True, ["api"], id="kept while an added workload is open",
        ),
        pytest.param(
            rebalancer(["api", "web"], [item("api", "Successful"), *DONE], finished=FINISHED, generation=2,
                       observed_generation=1),
            {}, LATER, True, [], id="moved when the spec was reordered",
        ),
        pytest.param(
            rebalancer(observed=DONE), {}, LATER, True, [], id="set if another client left it out",
        ),
    ],
)  # fmt: skip
def test_the_finish_time(before, outcomes, finish_time, changed, open_):
    found = decide_progress(before, {value(name): outcome for name, outcome in outcomes.items()}, NOW)
    assert found.status.finish_time == finish_time
    assert found.status.observed_generation == before.metadata.generation
    assert (found.changed, [each.name for each in found.open]) == (changed, open_)


@cases(
    ("before", "outcome", "remaining_s"),
    {
        "unset: never": (rebalancer(observed=DONE, finished=FINISHED), None, None),
        "zero: at once": (rebalancer(observed=DONE, finished=FINISHED, ttl_s=0), None, -60.7),
        "negative: at once": (rebalancer(observed=DONE, finished=FINISHED, ttl_s=-5), None, -65.7),
        "set: after that time": (rebalancer(observed=DONE, finished=FINISHED, ttl_s=100), None, 39.3),
        "counts from the time when all were done": (rebalancer(ttl_s=100), Marked(), 99.3),
        "counts when all have failed": (rebalancer(ttl_s=100), BindingMissing(), 99.3),
        "not while one is open": (rebalancer(ttl_s=0), NOT_MARKED, None),
        "counts from the change of the spec": (
            rebalancer(["web"], DONE, finished=FINISHED, ttl_s=90, generation=2, observed_generation=1),
            None,
            89.3,
        ),
        "a new workload delays it": (
            rebalancer(["api", "web"], DONE, finished=FINISHED, ttl_s=10, generation=2, observed_generation=1),
            None,
            None,
        ),
        "the maximum": (rebalancer(observed=DONE, finished=FINISHED, ttl_s=2**31 - 1), None, 2**31 - 1 - 60.7),
    },
)
def test_the_time_to_live(before, outcome, remaining_s):
    outcomes = {} if outcome is None else {value("web"): outcome}
    found = decide_progress(before, outcomes, NOW).remaining_s
    assert found == (remaining_s if remaining_s is None else pytest.approx(remaining_s))


names = st.sampled_from("abcdef")
workloads = st.lists(names, min_size=1, max_size=8)
outcomes_of_all = st.fixed_dictionaries(
    {
        name: st.sampled_from([Marked(), Marked(scheduled_later_at=LATER), BindingMissing(), NOT_MARKED, None])
        for name in "abcdef"
    }
).map(lambda found: {value(name): outcome for name, outcome in found.items() if outcome is not None})
statuses = st.lists(st.builds(item, names, st.sampled_from(["", "Successful", "Failed", "Odd"])), max_size=8)


def with_status(before: WorkloadRebalancer, status: RebalancerStatus) -> WorkloadRebalancer:
    return WorkloadRebalancer(before.spec, before.metadata, status)


@given(workloads, statuses, outcomes_of_all)
def test_a_second_decision_changes_nothing(spec, observed, outcomes):
    before = rebalancer(spec, observed)
    first = decide_progress(before, outcomes, NOW)
    again = decide_progress(with_status(before, first.status), {}, NOW + timedelta(hours=1))
    assert (again.status, again.changed, again.open) == (first.status, False, first.open)


@given(workloads, statuses, outcomes_of_all, st.randoms())
def test_the_order_of_the_spec_does_not_matter(spec, observed, outcomes, draw):
    shuffled = draw.sample(spec, len(spec))
    assert decide_progress(rebalancer(spec, observed), outcomes, NOW) == decide_progress(
        rebalancer(shuffled, observed), outcomes, NOW
    )


@given(workloads, statuses, outcomes_of_all)
def test_results_do_not_change(spec, observed, outcomes):
    observed = list({each["workload"]["name"]: each for each in observed}.values())
    before = rebalancer(spec, observed)
    after = {
        each.workload.name: each.result for each in decide_progress(before, outcomes, NOW).status.observed_workloads
    }
    for each in before.status.observed_workloads:
        if each.result == "Successful" or (each.result == "Failed" and each.workload.name in spec):
            assert after[each.workload.name] == each.result
    succeeded = {each.workload.name for each in before.status.observed_workloads if each.result == "Successful"}
    assert after.keys() == {*spec, *succeeded}


@given(workloads, statuses, outcomes_of_all)
def test_a_rebalancer_is_finished_if_and_only_if_nothing_is_open(spec, observed, outcomes):
    before = rebalancer(spec, observed, ttl_s=60)
    found = decide_progress(before, outcomes, NOW)
    assert (found.remaining_s is None) == bool(found.open)
    assert (found.status.finish_time is None) == bool(found.open)
    assert CREATED < (found.status.finish_time or NOW) <= NOW


REBALANCER = Reference("apps.karmada.io/v1alpha1", "WorkloadRebalancer", "", "night", "1")
BINDING = Reference("work.karmada.io/v1alpha2", "ResourceBinding", "shop", "web-deployment", "2")
FORBIDDEN = NotMarked(ApiError(403, "Forbidden", "PATCH /x: 403 forbidden"))
MANY = [f"w{number:02}" for number in range(30)]
WEB, API = "apps/v1 Deployment shop/web", "apps/v1 Deployment shop/api"
ONE_MARKED = ("Normal", "RebalanceSucceed", f"1 workload is marked for rescheduling: {WEB}")
BOTH_MARKED = ("Normal", "RebalanceSucceed", f"2 workloads are marked for rescheduling: {API}, {WEB}")
ONE_FAILED = (
    "Warning",
    "RebalanceFailed",
    (
        f"1 of 2 workloads are not marked because they have no binding: {API}. Check their names, and whether a policy "
        "claims them. The controller does not retry: create a new WorkloadRebalancer"
    ),
)
ONE_PENDING = (
    "Warning",
    "RebalancePending",
    f"1 of 2 workloads are not marked yet: {API}. The controller retries: PATCH /x: 403 forbidden",
)
NO_EFFECT = (
    "Warning",
    "NothingRescheduled",
    (
        f"not rescheduled because their last scheduling is later than this object: {WEB}. "
        "Create a new WorkloadRebalancer to reschedule them"
    ),
)
REORDERED = rebalancer(observed=[item("web", "Successful")], generation=2, observed_generation=1)


@cases(
    ("before", "outcomes", "expected"),
    {
        "all workloads are marked": (rebalancer(["api", "web"]), {"api": Marked(), "web": Marked()}, [BOTH_MARKED]),
        "the only workload is marked": (rebalancer(["web"]), {"web": Marked()}, [ONE_MARKED]),
        "a workload has no binding": (
            rebalancer(["api", "web"]),
            {"api": BindingMissing(), "web": Marked()},
            [ONE_FAILED],
        ),
        "a workload is tried again": (rebalancer(["api", "web"]), {"api": FORBIDDEN, "web": Marked()}, [ONE_PENDING]),
        "a mark has no effect": (rebalancer(["web"]), {"web": Marked(BINDING, LATER)}, [ONE_MARKED, NO_EFFECT]),
        "no workload was tried": (REORDERED, {}, []),
    },
)
def test_events_of_a_rebalancer(before, outcomes, expected):
    outcomes = {value(name): outcome for name, outcome in outcomes.items()}
    events = list(progress_events(before, decide_progress(before, outcomes, LATER), outcomes))
    assert [(each.kind, each.reason, each.note) for each in events] == expected
    assert all(each.regarding == REBALANCER for each in events)


@pytest.mark.parametrize("outcome", [Marked(), Marked(BINDING, LATER), BindingMissing(), FORBIDDEN])
def test_a_note_about_many_workloads_fits_into_an_event(outcome):
    outcomes = {value(name): outcome for name in MANY}
    before = rebalancer(MANY)
    for event in progress_events(before, decide_progress(before, outcomes, LATER), outcomes):
        assert "w04 and 25 more" in event.note
        assert len(event.note) <= 1024


TRIGGERED = (
    "Normal",
    "RescheduleTriggered",
    "WorkloadRebalancer night, created at 2026-03-01T12:00:00Z, triggered rescheduling",
)
NO_EFFECT_ON_BINDING = (
    "Warning",
    "NothingRescheduled",
    (
        "WorkloadRebalancer night, created at 2026-03-01T12:00:00Z, has no effect: the last scheduling was later, at "
        "2026-03-01T13:00:00Z. Create a new WorkloadRebalancer to reschedule"
    ),
)


@cases(
    ("marked", "expected"),
    {
        "the mark triggers rescheduling": (Marked(BINDING), TRIGGERED),
        "the mark has no effect": (Marked(BINDING, LATER), NO_EFFECT_ON_BINDING),
    },
)
def test_event_of_a_marked_binding(marked, expected):
    event = mark_event(rebalancer(), CREATED, marked)
    assert (event.kind, event.reason, event.note) == expected
    assert (event.regarding, event.related) == (BINDING, REBALANCER)


def test_a_binding_that_had_the_mark_before_gets_no_event():
    assert mark_event(rebalancer(), CREATED, Marked()) is None


PAGE = (Path(__file__).parents[4] / "docs" / "rebalancer.md").read_text()


@pytest.mark.parametrize("rule", RULES["workload-rebalancer"], ids=lambda rule: ", ".join(rule.resources))
def test_the_page_lists_every_right(rule):
    resources = ", ".join(f"`{each}`" for each in rule.resources)
    assert f"| `{rule.group}` | {resources} | {', '.join(rule.verbs)} |" in PAGE


def test_the_page_lists_no_other_right():
    rows = PAGE.partition("## Rights")[2].partition("\n\n| API group")[2].splitlines()
    assert len([row for row in rows if row.startswith("| `")]) == len(RULES["workload-rebalancer"])


def test_the_controller_is_off_by_default():
    [found] = [each for each in REGISTRY if each.name == "workload-rebalancer"]
    assert not found.by_default
    assert "--controllers '*,workload-rebalancer'" in PAGE
