"""What people are told."""

import pytest
from rebalancing import CREATED, LATER, item, rebalancer, workload

from extender.controllers.rebalancer.notices import of_mark, of_plan
from extender.controllers.rebalancer.plan import Marked, Missing, Unsettled, plan
from fleet.errors import ApiError
from fleet.kube.events import Reference
from fleet.model.decode import convert
from fleet.model.rebalancer import RebalancedWorkload

REBALANCER = Reference("apps.karmada.io/v1alpha1", "WorkloadRebalancer", "", "night", "1")
BINDING = Reference("work.karmada.io/v1alpha2", "ResourceBinding", "shop", "web-deployment", "2")
TROUBLE = Unsettled(ApiError(403, "Forbidden", "PATCH /x: 403 forbidden"))
MANY = [f"w{number:02}" for number in range(30)]


def value(name: str) -> RebalancedWorkload:
    return convert(RebalancedWorkload, workload(name))


@pytest.mark.parametrize(
    ("before", "outcomes", "told"),
    [
        pytest.param(
            rebalancer(["api", "web"]), {"api": Marked(), "web": Marked()},
            [("Normal", "RebalanceSucceed",
              "2 workloads are marked to be scheduled afresh: apps/v1 Deployment shop/api, apps/v1 Deployment shop/web")],
            id="all are marked",
        ),
        pytest.param(
            rebalancer(["web"]), {"web": Marked()},
            [("Normal", "RebalanceSucceed", "1 workload is marked to be scheduled afresh: apps/v1 Deployment shop/web")],
            id="the only one is marked",
        ),
        pytest.param(
            rebalancer(["api", "web"]), {"api": Missing(), "web": Marked()},
            [("Warning", "RebalanceFailed",
              "1 of 2 not marked, for they have no binding: apps/v1 Deployment shop/api; look at their names, and whether "
              "a policy claims them. They are not tried again: create a new WorkloadRebalancer for that")],
            id="one has no binding",
        ),
        pytest.param(
            rebalancer(["api", "web"]), {"api": TROUBLE, "web": Marked()},
            [("Warning", "RebalancePending",
              "1 of 2 not marked yet, to be tried again: apps/v1 Deployment shop/api: PATCH /x: 403 forbidden")],
            id="one is tried again",
        ),
        pytest.param(
            rebalancer(["web"]), {"web": Marked(BINDING, LATER)},
            [("Normal", "RebalanceSucceed", "1 workload is marked to be scheduled afresh: apps/v1 Deployment shop/web"),
             ("Warning", "NothingRescheduled",
              "nothing will be rescheduled of apps/v1 Deployment shop/web: scheduled after this object was created; "
              "create a new WorkloadRebalancer for that")],
            id="one is marked in vain",
        ),
        pytest.param(rebalancer(observed=[item("web", "Successful")], generation=2, observed_generation=1), {}, [],
                     id="nothing was tried"),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("marked", "told"),
    [
        pytest.param(
            Marked(BINDING),
            [("Normal", "RescheduleTriggered",
              "WorkloadRebalancer night, created 2026-03-01T12:00:00Z, wants it scheduled afresh")],
            id="who wants it scheduled afresh",
        ),
        pytest.param(
            Marked(BINDING, LATER),
            [("Warning", "NothingRescheduled",
              "WorkloadRebalancer night changes nothing: it was created 2026-03-01T12:00:00Z, and this was scheduled at "
              "2026-03-01T13:00:00Z; a new WorkloadRebalancer has it scheduled afresh")],
            id="that this changes nothing",
        ),
        pytest.param(Marked(), [], id="nothing, if it bore the mark before"),
    ],
)  # fmt: skip
def test_a_binding_is_told(marked, told):
    notices = list(of_mark(rebalancer(), CREATED, marked))
    assert [(each.kind, each.reason, each.note) for each in notices] == told
    assert all((each.regarding, each.related) == (BINDING, REBALANCER) for each in notices)
