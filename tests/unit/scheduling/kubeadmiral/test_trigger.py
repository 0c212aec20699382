import json

import pytest
from builders import quantities
from kubeadmiral_builders import DEPLOYMENTS, member, policy, web

from berthmaster.scheduling.kubeadmiral.trigger import ObjectTrigger, TriggerResult, hashes_of, snapshot_of, trigger_of

SWITCHES = ("policyContentChanged", "clusterLabelsChanged", "clusterAPIResourcesChanged", "clusterJoined")
A, B = member("a", labels={"az": "1"}), member("b")
TWO = [A, B]
INFO = "kubeadmiral.io/auto-migration-info"
NOTHING = TriggerResult(ObjectTrigger.NONE)


def when(*on, **spec):
    """A policy that reschedules for these changes alone."""
    return policy(reschedulePolicy={"rescheduleWhen": {name: name in on for name in SWITCHES}}, **spec)


def taken(asked, *, workload=None, annotations=None, clusters=TWO):
    return snapshot_of(workload or web(), asked, annotations or {}, hashes_of(clusters))


def decided(before, now, asked):
    return trigger_of(before if before is None or isinstance(before, str) else before.text, now, asked and asked.spec)


def deferred(*reasons):
    return TriggerResult(ObjectTrigger.NONE, reasons)


@pytest.mark.parametrize("stored", [None, ""], ids=["absent", "empty"])
def test_without_a_snapshot_it_is_the_first_time(stored):
    for asked in (when(), None):
        assert decided(stored, taken(asked), asked) == TriggerResult(ObjectTrigger.FIRST)


def test_if_all_is_as_it_was_nothing_is_done_and_nothing_deferred():
    for asked in (when(*SWITCHES), policy(), None):
        assert decided(taken(asked), taken(asked), asked) == NOTHING


@pytest.mark.parametrize("stored", ["{", "[]", '{"clusters": 3}'])
def test_a_snapshot_that_cannot_be_read_is_none(stored):
    asked = policy(reschedulePolicy={"disableRescheduling": True})
    assert decided(stored, taken(asked), asked) == TriggerResult(ObjectTrigger.UNREADABLE)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param(taken(when()), taken(None), id="the policy is gone"),
        pytest.param(taken(None), taken(None, clusters=[A]), id="a cluster is gone"),
        pytest.param("{", taken(None), id="the snapshot cannot be read"),
    ],
)
def test_without_a_policy_any_difference_counts(before, now):
    assert decided(before, now, None) == TriggerResult(ObjectTrigger.UNBOUND)


DISABLED = {"reschedulePolicy": {"disableRescheduling": True}}


@pytest.mark.parametrize(
    ("before", "now", "trigger"),
    [
        pytest.param(
            {}, {"annotations": {"kubeadmiral.io/maxClusters": "1"}}, ObjectTrigger.ANNOTATIONS, id="annotations"
        ),
        pytest.param({}, {"workload": web(4)}, ObjectTrigger.REPLICAS, id="the number of replicas"),
        pytest.param(
            {},
            {"workload": web(requests=quantities({"cpu": "1m"}))},
            ObjectTrigger.REQUESTS,
            id="what a replica requests",
        ),
        pytest.param({"name": "other"}, {}, ObjectTrigger.POLICY, id="the policy, by name"),
        pytest.param(
            {}, {"annotations": {INFO: "{}"}}, ObjectTrigger.AUTO_MIGRATION, id="auto-migration found something"
        ),
        pytest.param({"annotations": {INFO: "{}"}}, {}, ObjectTrigger.AUTO_MIGRATION, id="auto-migration is off"),
        pytest.param(
            {"annotations": {INFO: "{}"}},
            {"annotations": {INFO: "{ }"}},
            ObjectTrigger.AUTO_MIGRATION,
            id="auto-migration, by text",
        ),
        pytest.param(
            {"name": "other"}, {"workload": web(4), "clusters": []}, ObjectTrigger.REPLICAS, id="the first of several"
        ),
    ],
)
def test_changes_that_nothing_stands_against(before, now, trigger):
    was = policy(before.pop("name", "policy"), autoMigration={}, **DISABLED)
    asked = policy(autoMigration={}, **DISABLED)
    assert decided(taken(was, **before), taken(asked, **now), asked) == TriggerResult(trigger)


def test_of_automatic_migration_nothing_counts_without_it_in_the_policy():
    asked = when(*SWITCHES)
    assert decided(taken(asked), taken(asked, annotations={INFO: "{}"}), asked) == NOTHING


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param(DISABLED, "disableRescheduling:true", id="rescheduling is disabled"),
        pytest.param(
            {"reschedulePolicy": {"disableRescheduling": True, "rescheduleWhen": {"clusterJoined": True}}},
            "disableRescheduling:true",
            id="whatever else is said",
        ),
        pytest.param({}, "rescheduleWhen:nil", id="no word of rescheduling"),
        pytest.param({"reschedulePolicy": {}}, "rescheduleWhen:nil", id="no word of when"),
    ],
)
@pytest.mark.parametrize("clusters", [[A], [member("a", taints=["x:NoExecute"]), B]], ids=["lost", "tainted"])
def test_policies_that_never_reschedule(spec, reason, clusters):
    asked = policy(**spec)
    assert decided(taken(asked), taken(asked, clusters=clusters), asked) == deferred(reason)


CHANGES = {
    "policyContentChanged": (ObjectTrigger.POLICY_CONTENT, {"maxClusters": 1}, TWO),
    "clusterLabelsChanged": (ObjectTrigger.CLUSTER_LABELS, {}, [member("a", labels={"az": "2"}), B]),
    "clusterAPIResourcesChanged": (
        ObjectTrigger.CLUSTER_API_RESOURCES,
        {},
        [member("a", labels={"az": "1"}, serves=[DEPLOYMENTS]), B],
    ),
    "clusterJoined": (ObjectTrigger.CLUSTER_JOINED, {}, [*TWO, member("c")]),
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_each_switch_is_about_one_change(switch):
    trigger, spec, clusters = CHANGES[switch]
    others = [name for name in SWITCHES if name != switch]
    on, off = when(switch, **spec), when(*others, **spec)
    was_on, was_off = when(switch), when(*others)
    assert decided(taken(was_on), taken(on, clusters=clusters), on) == TriggerResult(trigger)
    assert decided(taken(was_off), taken(off, clusters=clusters), off) == deferred(f"{switch}:false")


@pytest.mark.parametrize(
    ("on", "before", "now", "verdict"),
    [
        pytest.param(
            [],
            TWO,
            [member("a", labels={"az": "1"}, taints=["x:PreferNoSchedule"]), B],
            TriggerResult(ObjectTrigger.CLUSTER_TAINTS),
            id="about taints there is no switch",
        ),
        pytest.param(
            [], TWO, [A], TriggerResult(ObjectTrigger.CLUSTER_TAINTS), id="a lost cluster counts like other taints"
        ),
        pytest.param(
            ["clusterLabelsChanged"],
            TWO,
            [A],
            TriggerResult(ObjectTrigger.CLUSTER_LABELS),
            id="or like other labels, if they do",
        ),
        pytest.param([], TWO, [], TriggerResult(ObjectTrigger.CLUSTER_TAINTS), id="so do all that are lost"),
        pytest.param(
            [], TWO, [A, member("b", joined="False")], TriggerResult(ObjectTrigger.CLUSTER_TAINTS), id="one that left"
        ),
        pytest.param(SWITCHES, TWO, [A, member("b", ready="False")], NOTHING, id="readiness counts for nothing"),
        pytest.param(
            [],
            TWO,
            [member("a", serves=[DEPLOYMENTS]), B, member("c", taints=["x:NoExecute"])],
            deferred("clusterLabelsChanged:false", "clusterAPIResourcesChanged:false", "clusterJoined:false"),
            id="all reasons are told, and a new cluster has no taints that count",
        ),
        pytest.param(
            ["clusterJoined"],
            TWO,
            [member("a"), B, member("c")],
            TriggerResult(ObjectTrigger.CLUSTER_JOINED),
            id="what is deferred does not keep a later change from counting",
        ),
        pytest.param([], [], TWO, deferred("clusterJoined:false"), id="the first clusters join"),
        pytest.param(
            ["clusterJoined"], [A], [B, member("c")], TriggerResult(ObjectTrigger.CLUSTER_TAINTS), id="others, not more"
        ),
    ],
)
def test_changes_of_clusters(on, before, now, verdict):
    asked = when(*on)
    assert decided(taken(asked, clusters=before), taken(asked, clusters=now), asked) == verdict


def test_a_change_that_is_deferred_is_deferred_until_it_is_undone():
    asked = when()
    before = taken(asked)
    changed = taken(asked, clusters=[*TWO, member("c")])
    assert decided(before, changed, asked) == deferred("clusterJoined:false")
    assert decided(before, taken(asked), asked) == NOTHING


def test_verdicts():
    assert TriggerResult(ObjectTrigger.REPLICAS).schedules
    assert not deferred("a:false", "b:false").schedules


def test_a_snapshot_with_other_hashes_makes_it_be_scheduled_once():
    asked = when()
    theirs = json.loads(taken(asked).text) | {"schedulingAnnotationsHash": "1"}
    assert decided(json.dumps(theirs), taken(asked), asked) == TriggerResult(ObjectTrigger.ANNOTATIONS)
