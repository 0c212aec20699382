"""Lazy policies keep what is until the template changes. Rebalancers reschedule just what they name."""

import pytest
from builders import deployment
from decisions import DYNAMIC
from fleet_dump import DIVIDED, load, members, stored_binding, stored_policy, stored_template
from simulated_worlds import WEB, simulated_rows, web_row
from switched_on import world_of
from tables import cases

from berthmaster.model.decode import convert
from berthmaster.model.rebalancer import WorkloadRebalancer
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.changes import Rebalance, Scale
from berthmaster.simulation.workload import NotScheduled, ResourceName

LAZY = {"activationPreference": "Lazy"}
FLEET = members("a", "b")
OLD = stored_policy("p", to=["a"], placement=DIVIDED)
TEMPLATE = stored_template(held_by=OLD)
BOUND = stored_binding(TEMPLATE, {"a": 2}, policy=OLD)
TO_B = stored_policy("p", to=["b"], placement=DIVIDED, **LAZY)
UNLABELLED = {**BOUND, "metadata": {**BOUND["metadata"], "labels": {}}}
"""The binding after its policy was deleted."""
SAME = stored_policy("p", to=["a"], placement=DIVIDED, **LAZY)


@pytest.mark.parametrize(
    ("objects", "over", "changes", "clusters"),
    [
        pytest.param([TO_B, TEMPLATE, BOUND], [], [], {"a": 2}, id="an edit of a Lazy policy waits"),
        pytest.param([TO_B, BOUND], [TEMPLATE], [], {"b": 2}, id="a change of the template brings the policy"),
        pytest.param([TO_B, TEMPLATE, BOUND], [], [Scale(WEB, 3)], {"b": 3}, id="a scaling changes the template"),
        pytest.param(
            [TO_B, TEMPLATE, UNLABELLED], [], [Scale(WEB, 3)], {"b": 3},
            id="a scaling gives a binding without a policy to the Lazy policy that its template records",
        ),
        pytest.param(
            [SAME, TEMPLATE, UNLABELLED], [], [Scale(WEB, 3)], {"a": 3},
            id="also if the placement stays the same",
        ),
        pytest.param(
            [stored_policy("p", to=["b"], placement=DIVIDED), TEMPLATE, BOUND], [], [], {"b": 2},
            id="an edit of another policy counts at once",
        ),
    ],
)  # fmt: skip
def test_when_an_edit_of_a_policy_counts(objects, over, changes, clusters):
    assert web_row(*FLEET, *objects, over=over, changes=changes).after.clusters == clusters


EAGER = stored_policy("p", to=["b"], placement=DIVIDED)
UNCLAIMED = stored_template()
OTHER = {"target": {"name": "other"}}
EVERYTHING = stored_policy("q", to=["b"], priority=1)
BY_LABEL = {"target": {"labelSelector": {"matchLabels": {"app": "before"}}}}
READ = {
    "apiVersion": "berthmaster.io/v1alpha1", "kind": "FleetSnapshot", "metadata": {"name": "test"},
    "readAt": "2026-05-01T00:00:00Z",
}  # fmt: skip


@pytest.mark.parametrize(
    ("stored", "over", "clusters", "holder"),
    [
        pytest.param([EAGER, TEMPLATE], [], {}, "p", id="claimed while the policy was Lazy: it waits for its template"),
        pytest.param([TO_B, TEMPLATE], [EAGER], {}, "p", id="an edit to eager does not find it either"),
        pytest.param([UNCLAIMED], [stored_policy("p", to=["b"], new=True, **LAZY)], {}, "p",
            id="a new Lazy policy claims a stored resource, and places nothing"),
        pytest.param([UNCLAIMED], [stored_policy("p", to=["b"], new=True)], {"b": 2}, "p", id="a new eager one does"),
        pytest.param([OLD, stored_policy("q", to=["b"], **LAZY), TEMPLATE, BOUND],
            [stored_policy("p", to=["a"], placement=DIVIDED, **OTHER)], {"b": 2}, "q",
            id="a released resource goes to a Lazy policy at once"),
        pytest.param([OLD, stored_policy("q", to=["b"], **LAZY), stored_template(held_by=stored_policy("q")), BOUND],
            [stored_policy("q", to=["b"])], {"a": 2}, "q",
            id="a policy does not find a binding that records another one"),
        pytest.param([OLD, EVERYTHING, stored_template(held_by=stored_policy("deleted")), BOUND],
            [stored_policy("p", to=["a"])], {"b": 2}, "q",
            id="a resource that records a deleted policy is released, and the first policy gets it"),
        pytest.param([stored_policy("l", to=["a"], placement=DIVIDED, **LAZY),
            stored_template(held_by=stored_policy("l"), replicas=3), UNLABELLED],
            [stored_policy("q", to=["b"], placement=DIVIDED, priority=1, preemption="Always",
                target={"name": "web"}, new=True)],
            {"b": 3}, "q", id="preemption brings the replicas of the template if the binding recorded no policy"),
        pytest.param([stored_policy("p", to=["a"], placement=DIVIDED, **BY_LABEL), stored_policy("q", to=["b"]),
            TEMPLATE, BOUND], [], {"a": 2}, "p",
            id="a claim outlives the labels by which the policy selected"),
    ],
)  # fmt: skip
def test_a_policy_file_takes_effect_as_the_detector_decides(stored, over, clusters, holder):
    after = web_row(READ, *FLEET, *stored, over=over).after
    assert (after.clusters, after.policy) == (clusters, f"PropagationPolicy default/{holder}")


def test_what_a_lazy_policy_defers_is_reported():
    assert web_row(*FLEET, TO_B, TEMPLATE, BOUND).after.notes == [
        "its policy is Lazy: changes of the policy count when the template changes"
    ]
    settled = stored_binding(stored_template(held_by=TO_B), {"b": 2}, policy=TO_B)
    assert web_row(*FLEET, TO_B, TEMPLATE, settled).after.notes == []


def test_a_stored_resource_of_a_lazy_policy_is_placed_when_it_changes():
    other = stored_template(held_by=TO_B, name="other")
    row = simulated_rows(*FLEET, TO_B, TEMPLATE, BOUND, other)["default/Deployment/other"]
    assert (row.after.clusters, row.after.not_scheduled) == ({}, NotScheduled.DEFERRED)
    assert "is Lazy" in row.after.message
    scale = Scale(ResourceName("", "Deployment", "other"), 3)
    scaled = simulated_rows(*FLEET, TO_B, TEMPLATE, BOUND, other, changes=[scale])
    assert scaled["default/Deployment/other"].after.clusters == {"b": 3}


def test_a_new_resource_of_a_lazy_policy_is_placed_at_once():
    rows = simulated_rows(*FLEET, TO_B, TEMPLATE, BOUND, over=[deployment("new")])
    assert rows["default/Deployment/new"].after.clusters == {"b": 1}


SPREAD = stored_policy(
    "p",
    placement={"replicaScheduling": DYNAMIC},
)


def uneven(name):
    template = stored_template(held_by=SPREAD, name=name, replicas=4)
    return [template, stored_binding(template, {"a": 4}, policy=SPREAD, replicas=4)]


def rebalancer(*names, created=None, observed=()):
    workloads = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": each, "namespace": "default"} for each in names
    ]
    return convert(
        WorkloadRebalancer,
        {
            "metadata": {"name": "now", **({"creationTimestamp": created} if created else {})},
            "spec": {"workloads": workloads},
            "status": {"observedWorkloads": [{"workload": workloads[0], "result": each} for each in observed]},
        },
    )


@cases(
    ("given", "moves", "trigger"),
    {
        "a new rebalancer": ({}, True, Trigger.RESCHEDULED),
        "one that is in progress": ({"created": "2026-04-01T00:00:00Z"}, True, Trigger.RESCHEDULED),
        "older than the last scheduling": ({"created": "2025-12-01T00:00:00Z"}, False, Trigger.NONE),
        "a workload that is finished": ({"observed": ["Successful"]}, False, Trigger.NONE),
        "a workload that failed": ({"observed": ["Failed"]}, False, Trigger.NONE),
        "a workload that is pending": ({"observed": [""]}, True, Trigger.RESCHEDULED),
    },
)
def test_a_rebalancer_reschedules_just_what_it_names(given, moves, trigger):
    objects = [*FLEET, SPREAD, *uneven("web"), *uneven("other")]
    rows = simulated_rows(*objects, changes=[Rebalance(rebalancer("web", **given))])
    named = rows["default/Deployment/web"]
    assert (named.after.clusters == {"a": 2, "b": 2}, named.after.trigger) == (moves, trigger)
    assert rows["default/Deployment/other"].after.clusters == {"a": 4}


def test_a_rebalancer_names_workloads_without_a_binding():
    change = Rebalance(rebalancer("web", "gone"))
    (missing,) = change.without_binding(world_of(load(*FLEET, SPREAD, *uneven("web"))))
    assert missing.name == "gone"
