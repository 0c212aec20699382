"""Overrides that set replicas count in what a loss, a plan or an edit leaves. They change no assignment."""

from datetime import UTC, datetime

import pytest
from fleet_dump import load, members, stored_binding, stored_policy, stored_template
from switched_on import ALL_ON
from tables import cases

from berthmaster.model.overrides import override_policy
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.changes import AddLabel, Down
from berthmaster.simulation.failures import DomainLoss, FailureDomain, Failures
from berthmaster.simulation.planner import plan
from berthmaster.simulation.world import world_of

NOW = datetime(2026, 6, 1, tzinfo=UTC)
PROFILE = karmada_profile()
EVENLY = {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}}


def override(value, *names, name="o", **target):
    """An override that sets the replicas of all Deployments on some clusters."""
    written = {"path": "/spec/replicas", "operator": "replace", "value": value}
    rule = {"targetCluster": {"clusterNames": list(names), **target}, "overriders": {"plaintext": [written]}}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "overrideRules": [rule]},
    }  # fmt: skip


def world(*overrides):
    """A Deployment with 6 replicas, 3 on a and 3 on b."""
    policy = stored_policy(to=["a", "b"], placement=EVENLY)
    web = stored_template(held_by=policy, replicas=6)
    bound = stored_binding(web, {"a": 3, "b": 3}, policy=policy, replicas=6)
    return world_of(load(*members("a", "b"), policy, web, bound, *overrides))


def planned(before, changes):
    return plan(PlanIndex(before, PROFILE), changes, NOW)


def left(found):
    return [(each.nowhere, each.by_change) for each in found.unplaced]


NOWHERE, SHORT, NOTHING = [(True, True)], [(False, True)], []


@cases(
    ("overrides", "lost", "expected", "stopped"),
    {
        "none: half of the replicas stop": ([], "a", SHORT, 3),
        "no replica runs on the other cluster": ([override(0, "b")], "a", NOWHERE, 3),
        "none stops where none runs": ([override(0, "a")], "a", NOTHING, 0),
        "fewer stop": ([override(1, "a")], "a", SHORT, 1),
        "more run on the other cluster than are asked for": ([override(9, "b")], "a", NOTHING, 3),
        "on all clusters": ([override(0)], "a", NOTHING, 0),
        "the last of two overrides counts": ([override(0, "b", name="x"), override(7, "b", name="y")], "a", NOTHING, 3),
    },
)
def test_what_a_loss_leaves_is_what_members_run(overrides, lost, expected, stopped):
    before = world(*overrides)
    found = planned(before, ChangeSet(edits=(Down(lost),)))
    assert left(found) == expected
    assert found.loss.replicas == stopped
    impact = Failures(before, PROFILE, NOW).impact(DomainLoss(FailureDomain.CLUSTER, lost, (lost,)))
    assert (len(impact.nowhere), len(impact.short)) == (expected == NOWHERE, expected == SHORT)
    assert impact.stopped == stopped


@cases(
    ("now", "overrides", "arriving", "over"),
    {
        "none: what is assigned": ({"a": 6}, [], 6, []),
        "none on the cluster": ({"a": 6}, [override(0, "b")], 0, []),
        "more on the cluster": ({"a": 6}, [override(100, "b")], 100, ["cpu"]),
        "fewer where they come from": ({"a": 6}, [override(1, "a")], 6, []),
        "the same number as before": ({"a": 3, "b": 3}, [override(100, "b")], 0, []),
    },
)
def test_what_a_cluster_gets_is_what_arrives_there(now, overrides, arriving, over):
    policy = stored_policy(to=["a", "b"], placement=EVENLY)
    web = stored_template(held_by=policy, replicas=6)
    bound = stored_binding(web, now, policy=policy, replicas=6)
    before = world_of(load(*members("a", "b"), policy, web, bound, *overrides), assumptions=ALL_ON)
    (total,) = (each for each in planned(before, ChangeSet(edits=(Down("a"),))).clusters if each.cluster == "b")
    impact = Failures(before, PROFILE, NOW).impact(DomainLoss(FailureDomain.CLUSTER, "a", ("a",)))
    assert (total.arriving, total.resources["cpu"].requested) == (arriving, 100 * arriving)
    assert total.overcommitted == impact.overcommitted.get("b", []) == over
    assert impact.arriving.get("b", 0) == arriving


def test_replicas_that_an_override_adds_where_a_workload_stays_arrive():
    changes = ChangeSet(overrides=(override_policy(override(100, "b")),))
    (total,) = planned(world(), changes).clusters
    assert (total.cluster, total.before, total.after, total.overcommitted) == ("b", 3, 100, ["cpu"])


@cases(
    ("stored", "changes", "expected"),
    {
        "an override that leaves nothing": ([], {"overrides": (override_policy(override(0)),)}, NOWHERE),
        "an override that leaves less": ([], {"overrides": (override_policy(override(1, "b")),)}, SHORT),
        "an override that adds": ([], {"overrides": (override_policy(override(9, "b")),)}, NOTHING),
        "the same override again": ([override(0, "b")], {"overrides": (override_policy(override(0, "b")),)}, NOTHING),
        "a deletion that brings replicas back": (
            [override(0, "b")],
            {"deleted_overrides": ("OverridePolicy default/o",)},
            NOTHING,
        ),
        "a deletion that takes replicas away": (
            [override(9, "b")],
            {"deleted_overrides": ("OverridePolicy default/o",)},
            NOTHING,
        ),
        "a label that makes an override select a cluster": (
            [override(0, labelSelector={"matchLabels": {"quiet": "yes"}})],
            {"edits": (AddLabel("b", "quiet", "yes"),)},
            SHORT,
        ),
    },
)
def test_a_change_of_what_overrides_set_counts(stored, changes, expected):
    found = planned(world(*stored), ChangeSet(**changes))
    assert (found.moves, left(found)) == ([], expected)


def test_a_plan_says_how_an_override_changes_replicas_and_has_another_id():
    first, second = (planned(world(), ChangeSet(overrides=(override_policy(override(each, "b")),))) for each in (1, 2))
    assert [each.notes for each in first.staying] == [
        ["overrides set its replicas: b=1", "overrides change its replicas: b 3 → 1"]
    ]
    assert first.overrides == ["OverridePolicy default/o"]
    assert first.id != second.id


@pytest.mark.parametrize("value", [None, "many"])
def test_what_is_no_number_counts_as_assigned(value):
    assert left(planned(world(override(value, "b")), ChangeSet(edits=(Down("a"),)))) == SHORT
