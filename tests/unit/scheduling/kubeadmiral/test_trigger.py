import json

import pytest
from builders import quantities
from kubeadmiral_builders import DEPLOYMENTS, member, policy, web
from tables import cases

from berthmaster.scheduling.kubeadmiral.trigger import ObjectTrigger, TriggerResult, hashes_of, snapshot_of, trigger_of

SWITCHES = ("policyContentChanged", "clusterLabelsChanged", "clusterAPIResourcesChanged", "clusterJoined")
A, B = member("a", labels={"az": "1"}), member("b")
TWO = [A, B]
INFO = "kubeadmiral.io/auto-migration-info"
NOTHING = TriggerResult(ObjectTrigger.NONE)


def when(*on, **spec):
    """Return a policy that reschedules for these changes only."""
    return policy(reschedulePolicy={"rescheduleWhen": {name: name in on for name in SWITCHES}}, **spec)


def taken(asked, *, workload=None, annotations=None, clusters=TWO):
    return snapshot_of(workload or web(), asked, annotations or {}, hashes_of(clusters))


def decided(before, now, asked):
    return trigger_of(before if before is None or isinstance(before, str) else before.text, now, asked and asked.spec)


def deferred(*reasons):
    return TriggerResult(ObjectTrigger.NONE, reasons)


@cases("stored", {"absent": None, "empty": ""})
def test_without_a_snapshot_the_object_was_never_scheduled(stored):
    for asked in (when(), None):
        assert decided(stored, taken(asked), asked) == TriggerResult(ObjectTrigger.FIRST)


def test_without_a_change_nothing_is_triggered_or_deferred():
    for asked in (when(*SWITCHES), policy(), None):
        assert decided(taken(asked), taken(asked), asked) == NOTHING


@pytest.mark.parametrize("stored", ["{", "[]", '{"clusters": 3}'])
def test_an_invalid_snapshot_triggers_scheduling(stored):
    asked = policy(reschedulePolicy={"disableRescheduling": True})
    assert decided(stored, taken(asked), asked) == TriggerResult(ObjectTrigger.UNREADABLE)


@cases(
    ("before", "now"),
    {
        "the policy was removed": (taken(when()), taken(None)),
        "a cluster was removed": (taken(None), taken(None, clusters=[A])),
        "the snapshot is invalid": ("{", taken(None)),
    },
)
def test_without_a_policy_any_difference_counts(before, now):
    assert decided(before, now, None) == TriggerResult(ObjectTrigger.UNBOUND)


DISABLED = {"reschedulePolicy": {"disableRescheduling": True}}


@cases(
    ("before", "now", "trigger"),
    {
        "annotations": ({}, {"annotations": {"kubeadmiral.io/maxClusters": "1"}}, ObjectTrigger.ANNOTATIONS),
        "the number of replicas": ({}, {"workload": web(4)}, ObjectTrigger.REPLICAS),
        "what a replica requests": ({}, {"workload": web(requests=quantities({"cpu": "1m"}))}, ObjectTrigger.REQUESTS),
        "the name of the policy": ({"name": "other"}, {}, ObjectTrigger.POLICY),
        "new information of auto-migration": ({}, {"annotations": {INFO: "{}"}}, ObjectTrigger.AUTO_MIGRATION),
        "auto-migration was disabled": ({"annotations": {INFO: "{}"}}, {}, ObjectTrigger.AUTO_MIGRATION),
        "another text of auto-migration": (
            {"annotations": {INFO: "{}"}},
            {"annotations": {INFO: "{ }"}},
            ObjectTrigger.AUTO_MIGRATION,
        ),
        "the first of several changes": (
            {"name": "other"},
            {"workload": web(4), "clusters": []},
            ObjectTrigger.REPLICAS,
        ),
    },
)
def test_changes_that_no_setting_disables(before, now, trigger):
    was = policy(before.pop("name", "policy"), autoMigration={}, **DISABLED)
    asked = policy(autoMigration={}, **DISABLED)
    assert decided(taken(was, **before), taken(asked, **now), asked) == TriggerResult(trigger)


def test_information_of_auto_migration_counts_only_with_it_in_the_policy():
    asked = when(*SWITCHES)
    assert decided(taken(asked), taken(asked, annotations={INFO: "{}"}), asked) == NOTHING


@cases(
    ("spec", "reason"),
    {
        "rescheduling is disabled": (DISABLED, "disableRescheduling:true"),
        "rescheduling is disabled, whatever else is enabled": (
            {"reschedulePolicy": {"disableRescheduling": True, "rescheduleWhen": {"clusterJoined": True}}},
            "disableRescheduling:true",
        ),
        "no reschedule policy": ({}, "rescheduleWhen:nil"),
        "no rescheduleWhen": ({"reschedulePolicy": {}}, "rescheduleWhen:nil"),
    },
)
@cases("clusters", {"removed": [A], "tainted": [member("a", taints=["x:NoExecute"]), B]})
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
def test_each_setting_is_for_one_change(switch):
    trigger, spec, clusters = CHANGES[switch]
    others = [name for name in SWITCHES if name != switch]
    on, off = when(switch, **spec), when(*others, **spec)
    was_on, was_off = when(switch), when(*others)
    assert decided(taken(was_on), taken(on, clusters=clusters), on) == TriggerResult(trigger)
    assert decided(taken(was_off), taken(off, clusters=clusters), off) == deferred(f"{switch}:false")


@cases(
    ("on", "before", "now", "verdict"),
    {
        "taints have no setting": (
            [],
            TWO,
            [member("a", labels={"az": "1"}, taints=["x:PreferNoSchedule"]), B],
            TriggerResult(ObjectTrigger.CLUSTER_TAINTS),
        ),
        "a removed cluster counts as changed taints": ([], TWO, [A], TriggerResult(ObjectTrigger.CLUSTER_TAINTS)),
        "a removed cluster counts as changed labels if these count": (
            ["clusterLabelsChanged"],
            TWO,
            [A],
            TriggerResult(ObjectTrigger.CLUSTER_LABELS),
        ),
        "all clusters were removed": ([], TWO, [], TriggerResult(ObjectTrigger.CLUSTER_TAINTS)),
        "a cluster left the federation": (
            [],
            TWO,
            [A, member("b", joined="False")],
            TriggerResult(ObjectTrigger.CLUSTER_TAINTS),
        ),
        "readiness does not count": (SWITCHES, TWO, [A, member("b", ready="False")], NOTHING),
        "all reasons are listed, and taints of a new cluster do not count": (
            [],
            TWO,
            [member("a", serves=[DEPLOYMENTS]), B, member("c", taints=["x:NoExecute"])],
            deferred("clusterLabelsChanged:false", "clusterAPIResourcesChanged:false", "clusterJoined:false"),
        ),
        "a deferred change does not hide a later one": (
            ["clusterJoined"],
            TWO,
            [member("a"), B, member("c")],
            TriggerResult(ObjectTrigger.CLUSTER_JOINED),
        ),
        "the first clusters join": ([], [], TWO, deferred("clusterJoined:false")),
        "other clusters, but not more": (
            ["clusterJoined"],
            [A],
            [B, member("c")],
            TriggerResult(ObjectTrigger.CLUSTER_TAINTS),
        ),
    },
)
def test_changes_of_clusters(on, before, now, verdict):
    asked = when(*on)
    assert decided(taken(asked, clusters=before), taken(asked, clusters=now), asked) == verdict


def test_a_change_is_deferred_until_it_is_reverted():
    asked = when()
    before = taken(asked)
    changed = taken(asked, clusters=[*TWO, member("c")])
    assert decided(before, changed, asked) == deferred("clusterJoined:false")
    assert decided(before, taken(asked), asked) == NOTHING


def test_a_snapshot_of_kubeadmiral_triggers_scheduling_once():
    asked = when()
    theirs = json.loads(taken(asked).text) | {"schedulingAnnotationsHash": "1"}
    assert decided(json.dumps(theirs), taken(asked), asked) == TriggerResult(ObjectTrigger.ANNOTATIONS)
