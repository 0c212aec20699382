import pytest
from builders import SERVED, cluster
from decisions import asked, schedule, spread

from berthmaster.model.binding import Component, GracefulEvictionTask, WorkloadAffinityGroups
from berthmaster.scheduling.context import Peers
from berthmaster.scheduling.diagnosis import explain
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler


def fits(candidate, **fields):
    """Return whether a cluster passes all filters, and check that it has reasons only if it does not."""
    scheduler, request = Scheduler(Fleet([candidate]), karmada_profile()), Request.of(asked(**fields))
    decision = scheduler.schedule(request)
    passes = bool(len(decision.attempts[0].rows))
    explained = explain(scheduler, request, decision).groups[0].clusters[0]
    assert passes == (not explained.rejections)
    return passes


IN = {"clusters": {"member1": 1}}


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        pytest.param({"kind": "Deployment"}, {}, True, id="a served kind"),
        pytest.param({"kind": "Widget"}, {}, False, id="a kind that is not served"),
        pytest.param({"api_version": "apps/v1beta1"}, {}, False, id="another version of the kind"),
        pytest.param({"kind": "Widget"}, IN, True, id="no longer served, but the cluster has the workload"),
        pytest.param(
            {"kind": "Widget"}, {"clusters": {"member1": 0}}, True, id="the cluster has the workload with 0 replicas"
        ),
    ],
)
def test_api_enablement(kind, fields, expected):
    assert fits(cluster(serves=SERVED), **kind, **fields) is expected


@pytest.mark.parametrize(
    ("taints", "tolerations", "fields", "expected"),
    [
        pytest.param([], [], {}, True, id="no taint"),
        pytest.param(["gpu=yes:NoSchedule"], [], {}, False, id="NoSchedule"),
        pytest.param(["gpu=yes:NoExecute"], [], {}, False, id="NoExecute"),
        pytest.param(["gpu=yes:PreferNoSchedule"], [], {}, True, id="PreferNoSchedule rejects nothing"),
        pytest.param(["gpu=yes:NoExecute"], [], IN, True, id="tainted after it got the workload"),
        pytest.param(["gpu=yes:NoSchedule"], [{"key": "gpu", "operator": "Exists"}], {}, True, id="Exists"),
        pytest.param(
            ["gpu=yes:NoSchedule"], [{"operator": "Exists"}], {}, True, id="Exists without a key tolerates all taints"
        ),
        pytest.param(
            ["gpu=yes:NoSchedule"], [{"key": "gpu", "value": "yes"}], {}, True, id="Equal is the default operator"
        ),
        pytest.param(
            ["gpu=yes:NoSchedule"], [{"key": "gpu", "operator": "Equal", "value": "no"}], {}, False, id="another value"
        ),
        pytest.param(["gpu=yes:NoSchedule"], [{"key": "cpu", "operator": "Exists"}], {}, False, id="another key"),
        pytest.param(
            ["gpu=yes:NoSchedule"],
            [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}],
            {},
            False,
            id="another effect",
        ),
        pytest.param(
            ["gpu=7:NoSchedule"], [{"key": "gpu", "operator": "Gt", "value": "1"}], {}, False, id="an unknown operator"
        ),
        pytest.param(
            ["gpu:NoSchedule", "down:NoExecute"],
            [{"key": "gpu", "operator": "Exists"}],
            {},
            False,
            id="one of two taints",
        ),
        pytest.param(
            ["gpu:NoExecute"],
            [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 0}],
            {},
            True,
            id="tolerationSeconds has no effect",
        ),
    ],
)
def test_taint_toleration(taints, tolerations, fields, expected):
    assert fits(cluster(taints=taints), clusterTolerations=tolerations, **fields) is expected


@pytest.mark.parametrize(
    ("field", "has", "expected"),
    [
        pytest.param("provider", {"provider": "aws"}, True, id="a provider"),
        pytest.param("provider", {}, False, id="no provider"),
        pytest.param("region", {"region": "eu"}, True, id="a region"),
        pytest.param("region", {"zones": ["z"]}, False, id="no region"),
        pytest.param("zone", {"zones": ["z"]}, True, id="zones"),
        pytest.param("zone", {"zone": "z"}, False, id="only the deprecated single zone"),
        pytest.param("cluster", {}, True, id="a spread by cluster"),
    ],
)
@pytest.mark.parametrize("current", [{}, IN], ids=["new", "already there"])
def test_spread_constraint(field, has, expected, current):
    assert fits(cluster(**has), spread=[spread(field, 1, 1)], **current) is expected


def test_static_weights_do_not_disable_the_filter():
    weighted = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
    assert not fits(cluster(), spread=[spread("region", 1, 1)], scheduling=weighted)


@pytest.mark.parametrize("current", [{}, IN], ids=["new", "already there"])
def test_cluster_eviction(current):
    def evicted(name):
        return {"graceful_eviction_tasks": (GracefulEvictionTask(from_cluster=name),), **current}

    assert not fits(cluster(), **evicted("member1"))
    assert fits(cluster(), **evicted("member2"))


@pytest.mark.parametrize("current", [{}, IN], ids=["new", "already there"])
def test_a_cluster_that_is_being_deleted_is_rejected(current):
    assert not fits(cluster(deleting=True), **current)


def test_a_cluster_that_is_not_ready_passes():
    assert fits(cluster(ready=False))


LABELLED = cluster(labels={"env": "prod", "tier": "2"}, region="eu", provider="aws", zones=["z1", "z2"])


def labels(*expressions, **matched):
    listed = [dict(zip(("key", "operator", "values"), each, strict=False)) for each in expressions]
    return {"labelSelector": {"matchLabels": matched, "matchExpressions": listed}}


def field(key, operator, *values):
    return {"fieldSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}}


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        pytest.param({}, True, id="an empty affinity matches every cluster"),
        pytest.param({"clusterNames": ["member1", "x"]}, True, id="a listed name"),
        pytest.param({"clusterNames": ["x"]}, False, id="a name that is not listed"),
        pytest.param({"exclude": ["member1"]}, False, id="excluded"),
        pytest.param({"clusterNames": ["member1"], "exclude": ["member1"]}, False, id="listed and excluded"),
        pytest.param({"labelSelector": {}}, True, id="an empty label selector"),
        pytest.param(labels(env="prod"), True, id="a matching label"),
        pytest.param(labels(env="dev"), False, id="another value of the label"),
        pytest.param(labels(env="prod", zone="x"), False, id="one of two labels"),
        pytest.param(labels(("env", "In", ["dev", "prod"])), True, id="In"),
        pytest.param(labels(("env", "NotIn", ["dev"])), True, id="NotIn another value"),
        pytest.param(labels(("env", "NotIn", ["prod"])), False, id="NotIn its value"),
        pytest.param(labels(("team", "NotIn", ["x"])), True, id="NotIn with a missing label"),
        pytest.param(labels(("env", "Exists")), True, id="Exists"),
        pytest.param(labels(("env", "DoesNotExist")), False, id="DoesNotExist"),
        pytest.param(labels(("team", "DoesNotExist")), True, id="DoesNotExist with a missing label"),
        pytest.param(labels(("tier", "Gt", ["1"])), False, id="Gt is invalid for labels, which matches nothing"),
        pytest.param(labels(("env", "In", [])), False, id="In without values is invalid, which matches nothing"),
        pytest.param(
            {"clusterNames": ["member1"], **labels(("env", "Like", ["p"]))},
            False,
            id="invalid, which matches nothing even with a listed name",
        ),
        pytest.param(field("region", "In", "eu", "us"), True, id="the region of the cluster"),
        pytest.param(field("region", "NotIn", "eu"), False, id="another region"),
        pytest.param(field("provider", "In", "gcp"), False, id="another provider"),
        pytest.param(field("provider", "Exists"), True, id="Exists for a provider"),
        pytest.param(field("zone", "In", "z2", "z9"), True, id="one of the zones of the cluster"),
        pytest.param(field("zone", "NotIn", "z9"), True, id="NotIn with no zone of the cluster"),
        pytest.param(field("zone", "NotIn", "z2"), False, id="NotIn with a zone of the cluster"),
        pytest.param(field("zone", "Exists"), True, id="Exists for zones"),
        pytest.param(field("zone", "DoesNotExist"), False, id="DoesNotExist for zones"),
        pytest.param(field("zone", "Gt", "1"), False, id="zones do not support Gt"),
        pytest.param(field("country", "In", "de"), False, id="an unknown field"),
        pytest.param({**labels(env="prod"), **field("region", "In", "us")}, False, id="every part must match"),
    ],
)
@pytest.mark.parametrize("current", [{}, IN], ids=["new", "already there"])
def test_cluster_affinity(affinity, expected, current):
    assert fits(LABELLED, clusterAffinity=affinity, **current) is expected


@pytest.mark.parametrize(
    "affinity",
    [
        pytest.param(field("zone", "NotIn", "z1"), id="zones"),
        pytest.param(field("region", "NotIn", "eu"), id="region"),
        pytest.param(field("provider", "DoesNotExist"), id="provider"),
    ],
)
def test_a_field_that_is_not_set_satisfies_negative_operators(affinity):
    assert fits(cluster(), clusterAffinity=affinity)


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        pytest.param({"replicas": 2}, True, id="a workload with replicas"),
        pytest.param({"replicas": 0, "requests": {}}, True, id="a workload with requirements"),
        pytest.param(
            {"replicas": 0, "components": (Component(name="x", replicas=1),)}, True, id="a workload with components"
        ),
        pytest.param({"replicas": 0}, False, id="any other resource"),
    ],
)
def test_overflow_applies_to_workloads_only(workload, expected):
    overflow = [{"affinityName": "over", "clusterNames": ["member1"]}]
    groups = [{"affinityName": "main", "clusterNames": ["x"], "overflowAffinities": overflow}]
    assert fits(cluster(), groups=groups, **workload) is expected


def grouped(name, **groups):
    return asked(name=name, workload_affinity_groups=WorkloadAffinityGroups(**groups))


@pytest.mark.parametrize(
    ("groups", "placed", "current", "expected"),
    [
        pytest.param(
            {"affinity_group": "t=x"}, {"peer": ["a", "b"]}, {}, {"a", "b"}, id="affinity: a cluster with a peer"
        ),
        pytest.param(
            {"affinity_group": "t=x"},
            {"peer": ["a", "b"], "other": ["b", "c"]},
            {},
            {"b"},
            id="affinity: a cluster with all peers",
        ),
        pytest.param(
            {"affinity_group": "t=x"},
            {"peer": ["a"], "other": ["b"]},
            {},
            set(),
            id="affinity: no cluster if peers are on different ones",
        ),
        pytest.param(
            {"affinity_group": "t=x"}, {}, {}, {"a", "b", "c"}, id="affinity: any cluster for the first workload"
        ),
        pytest.param(
            {"affinity_group": "t=x"},
            {"peer": []},
            {},
            {"a", "b", "c"},
            id="affinity: any cluster if no peer is scheduled",
        ),
        pytest.param(
            {"affinity_group": "t=x"},
            {"web": ["a"]},
            {},
            {"a", "b", "c"},
            id="affinity: a workload is not its own peer",
        ),
        pytest.param(
            {"affinity_group": "t=x"}, {"peer": ["a"]}, {"c": 1}, {"a", "c"}, id="affinity: a current cluster"
        ),
        pytest.param(
            {"affinity_group": "t=y"},
            {"peer": ["a"]},
            {},
            {"a", "b", "c"},
            id="affinity: any cluster for another group",
        ),
        pytest.param(
            {"anti_affinity_group": "t=x"}, {"peer": ["a", "b"]}, {}, {"c"}, id="anti-affinity: a cluster without peers"
        ),
        pytest.param(
            {"anti_affinity_group": "t=x"},
            {"peer": ["a"]},
            {"a": 1},
            {"b", "c"},
            id="anti-affinity: not even a current cluster with a peer",
        ),
        pytest.param({}, {"peer": ["a"]}, {}, {"a", "b", "c"}, id="any cluster without a group"),
    ],
)
def test_workload_affinity_and_anti_affinity(groups, placed, current, expected):
    peers = Peers()
    for name, clusters in placed.items():
        peers.place(Request.of(grouped(name, affinity_group="t=x", anti_affinity_group="t=x")), clusters)
    workload = asked(name="web", clusters=current, workload_affinity_groups=WorkloadAffinityGroups(**groups))
    profile = karmada_profile(built_in(workload_affinity=True))
    decision = schedule([cluster(name) for name in "abc"], workload, profile, peers)
    assert {*decision.assignment} == expected
