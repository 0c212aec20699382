import json

import pytest
from builders import quantities
from hypothesis import given
from hypothesis import strategies as st
from kubeadmiral_builders import CONFIG_MAPS, DEPLOYMENTS, member, policy, web
from tables import cases

from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError
from berthmaster.scheduling.columns import fnv1_32
from berthmaster.scheduling.kubeadmiral.trigger import (
    TRIGGER_ANNOTATIONS,
    ResourceRequest,
    Snapshot,
    cluster_hashes,
    hashes_of,
    snapshot_of,
)

POLICY = policy(schedulingMode="Divide", clusterSelector={"a": "1", "b": "2"})


def taken(*, workload=None, policy=POLICY, annotations=None, clusters=()):
    return snapshot_of(workload or web(), policy, annotations or {}, hashes_of(clusters))


def test_the_json_form():
    requests = quantities({"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 1, "hugepages-2Mi": "4Mi", "pods": 1})
    snapshot = taken(
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
    snapshot = taken(policy=None, workload=web(None), annotations={"kubeadmiral.io/auto-migration-info": "{}"})
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
    now = taken(policy=policy(**fields))
    assert (now.policy_content_hash != taken().policy_content_hash) is counts


@pytest.mark.parametrize("name", TRIGGER_ANNOTATIONS)
def test_annotations_that_trigger_scheduling(name):
    assert taken(annotations={name: "x"}).scheduling_annotations_hash != taken().scheduling_annotations_hash
    other = {name: "x", "kubeadmiral.io/no-scheduling": "true", "team": "a"}
    assert taken(annotations=other) == taken(annotations={name: "x"})


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "é"]), st.text(max_size=5)), st.randoms())
def test_the_text_is_the_same_for_equal_snapshots(labels, random):
    shuffled = dict(random.sample(sorted(labels.items()), len(labels)))
    clusters = [member("x", labels=labels), member("y", taints=["a:NoSchedule"])]
    again = [member("y", taints=["a:NoSchedule"]), member("x", labels=shuffled)]
    assert taken(clusters=clusters).text == taken(clusters=again).text
