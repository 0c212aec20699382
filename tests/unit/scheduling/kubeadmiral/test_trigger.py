import json

import pytest
from builders import quantities
from hypothesis import given
from hypothesis import strategies as st
from kubeadmiral_builders import CONFIG_MAPS, DEPLOYMENTS, member, policy, web
from tables import cases

from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError
from berthmaster.scheduling.fnv import fnv1_32
from berthmaster.scheduling.kubeadmiral.trigger import (
    TRIGGER_ANNOTATIONS,
    ObjectTrigger,
    ResourceRequest,
    Snapshot,
    TriggerResult,
    cluster_hashes,
    hashes_of,
    snapshot_of,
    trigger_of,
)

SWITCHES = ("policyContentChanged", "clusterLabelsChanged", "clusterAPIResourcesChanged", "clusterJoined")
A, B = member("a", labels={"az": "1"}), member("b")
TWO = [A, B]
INFO = "kubeadmiral.io/auto-migration-info"
NOTHING = TriggerResult(ObjectTrigger.NONE)
TAINTS, LABELS, JOINED = map(
    TriggerResult, (ObjectTrigger.CLUSTER_TAINTS, ObjectTrigger.CLUSTER_LABELS, ObjectTrigger.CLUSTER_JOINED)
)


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
            TAINTS,
        ),
        "a removed cluster counts as changed taints": ([], TWO, [A], TAINTS),
        "a removed cluster counts as changed labels if these count": (["clusterLabelsChanged"], TWO, [A], LABELS),
        "all clusters were removed": ([], TWO, [], TAINTS),
        "a cluster left the federation": ([], TWO, [A, member("b", joined="False")], TAINTS),
        "readiness does not count": (SWITCHES, TWO, [A, member("b", ready="False")], NOTHING),
        "all reasons are listed, and taints of a new cluster do not count": (
            [],
            TWO,
            [member("a", serves=[DEPLOYMENTS]), B, member("c", taints=["x:NoExecute"])],
            deferred("clusterLabelsChanged:false", "clusterAPIResourcesChanged:false", "clusterJoined:false"),
        ),
        "a deferred change does not hide a later one": (["clusterJoined"], TWO, [member("a"), B, member("c")], JOINED),
        "the first clusters join": ([], [], TWO, deferred("clusterJoined:false")),
        "other clusters, but not more": (["clusterJoined"], [A], [B, member("c")], TAINTS),
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


POLICY = policy(schedulingMode="Divide", clusterSelector={"a": "1", "b": "2"})


def recorded(*, workload=None, policy=POLICY, annotations=None, clusters=()):
    return snapshot_of(workload or web(), policy, annotations or {}, hashes_of(clusters))


def test_the_json_form():
    requests = quantities({"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 1, "hugepages-2Mi": "4Mi", "pods": 1})
    snapshot = recorded(
        workload=web(3, requests=requests),
        policy=policy("p", autoMigration={}),
        annotations={"kubeadmiral.io/auto-migration-info": "{}"},
        clusters=[member("b"), member("a")],
    )
    document = json.loads(snapshot.text)
    hashes = [each for each in document if each.endswith(("Hash", "Hashes"))]
    assert {key: value for key, value in document.items() if key not in hashes} == {
        "replicaCount": 3,
        "resourceRequest": {
            "millicpu": 1500,
            "memory": 2**30,
            "scalarResources": {"hugepages-2Mi": 4 * 2**20, "nvidia.com/gpu": 1},
        },
        "policyName": "p",
        "autoMigrationInfo": "{}",
        "clusters": ["a", "b"],
    }
    assert sorted(hashes) == [
        "clusterAPIResourceTypesHashes",
        "clusterLabelsHashes",
        "clusterTaintsHashes",
        "policyContentHash",
        "schedulingAnnotationsHash",
    ]
    assert list(document["clusterTaintsHashes"]) == ["a", "b"]
    assert all(0 <= int(each) < 2**32 for each in document["clusterLabelsHashes"].values())
    assert decode_json(Snapshot, snapshot.text) == snapshot


def test_without_policy_and_clusters():
    snapshot = recorded(policy=None, workload=web(None), annotations={"kubeadmiral.io/auto-migration-info": "{}"})
    assert (snapshot.policy_name, snapshot.policy_content_hash, snapshot.auto_migration_info) == ("", "", None)
    assert (snapshot.replica_count, snapshot.resource_request, snapshot.clusters) == (0, ResourceRequest(), ())
    assert decode_json(Snapshot, snapshot.text) == snapshot


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"replicaCount": "x"}'], ids=lambda text: f"text {text or 'that is empty'}"
)
def test_text_that_is_not_a_snapshot_is_an_error(text):
    with pytest.raises(FieldError):
        decode_json(Snapshot, text)


@cases(
    ("cluster", "hashed"),
    {
        "an empty cluster": (member(serves=[]), (b"{}", b"[]", b"[]")),
        "some of each part": (
            member(labels={"b": "2", "a": "1"}, taints=["x=y:NoSchedule", "a:NoExecute"], serves=[DEPLOYMENTS]),
            (
                b'{"a":"1","b":"2"}',
                b'[["a","","NoExecute"],["x","y","NoSchedule"]]',
                b'[["apps/v1","Deployment","deployments"]]',
            ),
        ),
    },
)
def test_what_is_hashed(cluster, hashed):
    # A change of these hashes triggers scheduling of all objects.
    assert cluster_hashes(cluster) == tuple(str(fnv1_32(each)) for each in hashed)


@cases(
    ("before", "after", "changed"),
    {
        "a label": ({"labels": {"a": "1"}}, {"labels": {"a": "2"}}, {"labels"}),
        "order of labels": ({"labels": {"a": "1", "b": "2"}}, {"labels": {"b": "2", "a": "1"}}, set()),
        "the effect of a taint": ({"taints": ["a:NoSchedule"]}, {"taints": ["a:NoExecute"]}, {"taints"}),
        "the value of a taint": ({"taints": ["a:NoSchedule"]}, {"taints": ["a=x:NoSchedule"]}, {"taints"}),
        "order of taints": ({"taints": ["a:X", "b:X"]}, {"taints": ["b:X", "a:X"]}, set()),
        "a removed kind": ({}, {"serves": [DEPLOYMENTS]}, {"api_resource_types"}),
        "order of kinds": ({}, {"serves": [CONFIG_MAPS, DEPLOYMENTS]}, set()),
        "conditions and deletion": ({}, {"ready": "False", "deleting": True}, set()),
        "resources": ({}, {"allocatable": {"cpu": 1}}, set()),
    },
)
def test_which_changes_of_a_cluster_count(before, after, changed):
    then, now = (cluster_hashes(member(**fields)) for fields in (before, after))
    assert {name for name in then._fields if getattr(then, name) != getattr(now, name)} == changed


def test_clusters_that_did_not_join_are_left_out():
    assert list(hashes_of([member("a", joined="False"), member("b", ready="False"), member("c", joined="")])) == ["b"]


@cases(
    ("changed", "counts"),
    {
        "order of labels": ({"clusterSelector": {"b": "2", "a": "1"}}, False),
        "a removed label": ({"clusterSelector": {"a": "1"}}, True),
        "auto-migration": ({"autoMigration": {"keepUnschedulableReplicas": True}}, False),
        "the reschedule policy": ({"reschedulePolicy": {"disableRescheduling": True}}, True),
        "followers": ({"disableFollowerScheduling": True}, True),
        "an empty list": ({"tolerations": []}, False),
    },
)
def test_which_changes_of_a_policy_count(changed, counts):
    fields = {"schedulingMode": "Divide", "clusterSelector": {"a": "1", "b": "2"}, **changed}
    now = recorded(policy=policy(**fields))
    assert (now.policy_content_hash != recorded().policy_content_hash) is counts


@pytest.mark.parametrize("name", TRIGGER_ANNOTATIONS)
def test_annotations_that_trigger_scheduling(name):
    assert recorded(annotations={name: "x"}).scheduling_annotations_hash != recorded().scheduling_annotations_hash
    other = {name: "x", "kubeadmiral.io/no-scheduling": "true", "team": "a"}
    assert recorded(annotations=other) == recorded(annotations={name: "x"})


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "é"]), st.text(max_size=5)), st.randoms())
def test_the_text_is_the_same_for_equal_snapshots(labels, random):
    shuffled = dict(random.sample(sorted(labels.items()), len(labels)))
    clusters = [member("x", labels=labels), member("y", taints=["a:NoSchedule"])]
    again = [member("y", taints=["a:NoSchedule"]), member("x", labels=shuffled)]
    assert recorded(clusters=clusters).text == recorded(clusters=again).text
