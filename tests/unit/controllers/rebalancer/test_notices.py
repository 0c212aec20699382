"""What people are told."""

import pytest
from rebalancing import CREATED, LATER, item, rebalancer, workload

from berthmaster.controllers.rebalancer.notices import of_mark, of_plan
from berthmaster.controllers.rebalancer.plan import Marked, Missing, Unsettled, plan
from berthmaster.kube.events import Reference
from berthmaster.model.decode import convert
from berthmaster.model.errors import ApiError
from berthmaster.model.rebalancer import RebalancedWorkload

REBALANCER = Reference("apps.karmada.io/v1alpha1", "WorkloadRebalancer", "", "night", "1")
BINDING = Reference("work.karmada.io/v1alpha2", "ResourceBinding", "shop", "web-deployment", "2")
TROUBLE = Unsettled(ApiError(403, "Forbidden", "PATCH /x: 403 forbidden"))
MANY = [f"w{number:02}" for number in range(30)]


def value(name: str) -> RebalancedWorkload:
    return convert(RebalancedWorkload, workload(name))


WEB, API = "apps/v1 Deployment shop/web", "apps/v1 Deployment shop/api"
ONE_MARKED = ("Normal", "RebalanceSucceed", f"1 workload is marked to be scheduled afresh: {WEB}")
BOTH_MARKED = ("Normal", "RebalanceSucceed", f"2 workloads are marked to be scheduled afresh: {API}, {WEB}")
ONE_FAILED = (
    "Warning",
    "RebalanceFailed",
    (
        f"1 of 2 not marked, for they have no binding: {API}; look at their names, and whether a policy claims them. "
        "They are not tried again: create a new WorkloadRebalancer for that"
    ),
)
ONE_PENDING = (
    "Warning",
    "RebalancePending",
    f"1 of 2 not marked yet, to be tried again: {API}: PATCH /x: 403 forbidden",
)
IN_VAIN = (
    "Warning",
    "NothingRescheduled",
    (
        f"nothing will be rescheduled of {WEB}: scheduled after this object was created; "
        "create a new WorkloadRebalancer for that"
    ),
)
REORDERED = rebalancer(observed=[item("web", "Successful")], generation=2, observed_generation=1)


@pytest.mark.parametrize(
    ("before", "outcomes", "told"),
    [
        pytest.param(
            rebalancer(["api", "web"]), {"api": Marked(), "web": Marked()}, [BOTH_MARKED], id="that all are marked"
        ),
        pytest.param(rebalancer(["web"]), {"web": Marked()}, [ONE_MARKED], id="that the only one is marked"),
        pytest.param(
            rebalancer(["api", "web"]), {"api": Missing(), "web": Marked()}, [ONE_FAILED], id="that one has no binding"
        ),
        pytest.param(
            rebalancer(["api", "web"]), {"api": TROUBLE, "web": Marked()}, [ONE_PENDING], id="that one is tried again"
        ),
        pytest.param(
            rebalancer(["web"]), {"web": Marked(BINDING, LATER)}, [ONE_MARKED, IN_VAIN], id="that a mark is in vain"
        ),
        pytest.param(REORDERED, {}, [], id="nothing, if nothing was tried"),
    ],
)
def test_a_rebalancer_is_told(before, outcomes, told):
    outcomes = {value(name): outcome for name, outcome in outcomes.items()}
    notices = list(of_plan(before, plan(before, outcomes, LATER), outcomes))
    assert [(each.kind, each.reason, each.note) for each in notices] == told
    assert all(each.regarding == REBALANCER for each in notices)


@pytest.mark.parametrize("outcome", [Marked(), Marked(BINDING, LATER), Missing(), TROUBLE])
def test_however_many_there_are_a_note_stays_short_enough_to_be_told_whole(outcome):
    outcomes = {value(name): outcome for name in MANY}
    before = rebalancer(MANY)
    for notice in of_plan(before, plan(before, outcomes, LATER), outcomes):
        assert "w04 and 25 more" in notice.note
        assert len(notice.note) <= 1024


TRIGGERED = (
    "Normal",
    "RescheduleTriggered",
    "WorkloadRebalancer night, created 2026-03-01T12:00:00Z, wants it scheduled afresh",
)
CHANGES_NOTHING = (
    "Warning",
    "NothingRescheduled",
    (
        "WorkloadRebalancer night changes nothing: it was created 2026-03-01T12:00:00Z, and this was scheduled at "
        "2026-03-01T13:00:00Z; a new WorkloadRebalancer has it scheduled afresh"
    ),
)


@pytest.mark.parametrize(
    ("marked", "told"),
    [
        pytest.param(Marked(BINDING), [TRIGGERED], id="who wants it scheduled afresh"),
        pytest.param(Marked(BINDING, LATER), [CHANGES_NOTHING], id="that this changes nothing"),
        pytest.param(Marked(), [], id="nothing, if it bore the mark before"),
    ],
)
def test_a_binding_is_told(marked, told):
    notices = list(of_mark(rebalancer(), CREATED, marked))
    assert [(each.kind, each.reason, each.note) for each in notices] == told
    assert all((each.regarding, each.related) == (BINDING, REBALANCER) for each in notices)
