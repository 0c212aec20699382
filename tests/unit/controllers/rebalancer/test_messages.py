"""The events of the WorkloadRebalancer controller."""

import pytest
from rebalancing import CREATED, LATER, item, rebalancer, workload
from tables import cases

from berthmaster.controllers.rebalancer.progress import (
    BindingMissing,
    Marked,
    NotMarked,
    decide,
    mark_event,
    progress_events,
)
from berthmaster.kube.events import Reference
from berthmaster.model.decode import convert
from berthmaster.model.errors import ApiError
from berthmaster.model.rebalancer import RebalancedWorkload

REBALANCER = Reference("apps.karmada.io/v1alpha1", "WorkloadRebalancer", "", "night", "1")
BINDING = Reference("work.karmada.io/v1alpha2", "ResourceBinding", "shop", "web-deployment", "2")
FORBIDDEN = NotMarked(ApiError(403, "Forbidden", "PATCH /x: 403 forbidden"))
MANY = [f"w{number:02}" for number in range(30)]


def value(name: str) -> RebalancedWorkload:
    return convert(RebalancedWorkload, workload(name))


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
    events = list(progress_events(before, decide(before, outcomes, LATER), outcomes))
    assert [(each.kind, each.reason, each.note) for each in events] == expected
    assert all(each.regarding == REBALANCER for each in events)


@pytest.mark.parametrize("outcome", [Marked(), Marked(BINDING, LATER), BindingMissing(), FORBIDDEN])
def test_a_note_about_many_workloads_fits_into_an_event(outcome):
    outcomes = {value(name): outcome for name in MANY}
    before = rebalancer(MANY)
    for event in progress_events(before, decide(before, outcomes, LATER), outcomes):
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
