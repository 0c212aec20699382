"""KubeAdmiral's scheduler webhook: bodies and answers."""

import json
import logging
from itertools import combinations

import pytest
from fake_clock import FakeClock
from fake_metrics import FakeMetrics
from hypothesis import given
from hypothesis import strategies as st
from tables import cases

from berthmaster.model.decode import convert
from berthmaster.model.placement_limits import DEFAULT_LIMITS
from berthmaster.scheduling.steps import Work
from extender.protocols.kubeadmiral import affinity_groups, routes
from extender.protocols.kubeadmiral.affinity_groups import ANNOTATION, AffinityGroup, cluster_of, groups_of, tiers_by
from extender.protocols.kubeadmiral.plugin import MAX_CLUSTERS
from extender.protocols.kubeadmiral.wire import Member
from extender.protocols.problem import problem
from extender.protocols.services import Call, Services

EU = {"affinityName": "eu", "labelSelector": {"matchLabels": {"zone": "eu"}}}
US = {"affinityName": "us", "clusterNames": ["us-1", "us-2"]}
WIDENED = {**EU, "overflowAffinities": [{"affinityName": "ap", "clusterNames": ["ap-1"]}]}


def call(verb: str, body: bytes, *, pass_in_doubt: bool = True, **limits: int):
    """Return the answer as JSON text, and the recorded metrics."""
    metrics = FakeMetrics()
    services = Services(state=None, metrics=metrics, log=logging.getLogger("test"), clock=FakeClock())
    route = next(
        each
        for each in routes(pass_in_doubt=pass_in_doubt, limits=DEFAULT_LIMITS._replace(**limits))
        if each.path.endswith(f"/{verb}")
    )
    reply = route.handler(services, Call("request-1", deadline_s=1e9, body=body))
    assert reply.status == 200
    return reply.body, metrics


def cluster(name: str, zone: str = "us", *, gpus: tuple[int, int] = (8, 8)) -> dict:
    """Return a FederatedCluster in KubeAdmiral's format: no apiVersion, and fields that the plugin ignores."""
    return {
        "metadata": {"name": name, "labels": {"zone": zone}, "creationTimestamp": "2024-01-02T03:04:05Z"},
        "spec": {"apiEndpoint": "https://10.0.0.1:6443", "useServiceAccount": True, "secretRef": {"name": name}},
        "status": {
            "resources": {
                "schedulableNodes": 3,
                "allocatable": {"cpu": "12", "nvidia.com/gpu": str(gpus[0])},
                "available": {"cpu": "-500m", "nvidia.com/gpu": str(gpus[1])},
            }
        },
    }


def unit(*groups: dict, mode: str = "Divide", replicas: int | None = 6, **fields) -> dict:
    """Return a scheduling unit in KubeAdmiral's format, with these groups in its annotation."""
    made = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "resource": "deployments",
        "namespace": "shop",
        "name": "web",
        "schedulingMode": mode,
        "resourceRequest": {"cpu": "0", "ephemeral-storage": "0", "memory": "0", "nvidia.com/gpu": "1"},
        "currentClusters": [],
        **fields,
    }
    if mode == "Divide":
        made["desiredReplicas"] = replicas
    if groups:
        made["annotations"] = {ANNOTATION: json.dumps(groups)}
    return made


def one(asked: dict, named: dict) -> bytes:
    return json.dumps({"schedulingUnit": asked, "cluster": named}).encode()


def many(asked: dict, *scored: tuple[dict, int]) -> bytes:
    scores = [{"cluster": named, "score": score} for named, score in scored]
    return json.dumps({"schedulingUnit": asked, "clusterScores": scores}).encode()


EU_1, US_1, US_2, AP_1 = cluster("eu-1", "eu"), cluster("us-1"), cluster("us-2"), cluster("ap-1", "ap")


ZONED = {"key": "zone", "operator": "In", "values": ["z1"]}


@cases(
    ("asked", "named", "selected"),
    {
        "a cluster of the first group passes": (unit(EU, US), EU_1, True),
        "a cluster of a later group passes": (unit(EU, US), US_2, True),
        "a cluster of no group is rejected": (unit(EU, US), AP_1, False),
        "without groups every cluster passes": (unit(), AP_1, True),
        "a field selector uses the zone label": (
            unit({"affinityName": "r", "fieldSelector": {"matchExpressions": [ZONED]}}),
            {"metadata": {"name": "a", "labels": {"topology.kubernetes.io/zone": "z1"}}}, True,
        ),
        "an empty list of groups": (unit(annotations={ANNOTATION: "[]"}), AP_1, True),
        "a cluster of an overflow passes": (unit(WIDENED, US), AP_1, True),
        "the last cluster of a long annotation passes": (
            unit({"affinityName": "many", "clusterNames": [f"member{number}" for number in range(2000)]}),
            cluster("member1999"), True,
        ),
    },
)  # fmt: skip
def test_filter(asked, named, selected):
    body, metrics = call("filter", one(asked, named))
    assert body == json.dumps({"selected": selected, "error": ""}, separators=(",", ":")).encode()
    assert metrics.calls_of("decided") == [("kubeadmiral", "filter", "passed" if selected else "rejected")]


@cases(
    ("groups", "named", "score"),
    {
        "the first of two groups": ([EU, US], EU_1, 2),
        "the second group": ([EU, US], US_1, 1),
        "no group": ([EU, US], AP_1, 0),
        "the first group, with overflow": ([WIDENED, US], EU_1, 3),
        "the overflow": ([WIDENED, US], AP_1, 2),
        "the group after the overflow": ([WIDENED, US], US_1, 1),
    },
)
def test_score_is_an_integer_and_higher_for_earlier_groups(groups, named, score):
    assert call("score", one(unit(*groups), named))[0] == f'{{"score":{score},"error":""}}'.encode()


TAINTED = {**EU_1, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
RUNNING = {"currentClusters": ["eu-1"], "currentReplicaDistribution": {"eu-1": 4}}


def placements(**preferences: dict) -> dict:
    return {"placements": [{"cluster": name, "preferences": each} for name, each in preferences.items()]}


PLACED = placements(**{"eu-1": {"maxReplicas": 4}})


@pytest.mark.parametrize(
    ("asked", "scored", "names"),
    [
        pytest.param(unit(EU, US), [(US_1, 100), (EU_1, 0)], ["eu-1"], id="the first group, regardless of scores"),
        pytest.param(unit(EU, US, replicas=9), [(EU_1, 9), (US_1, 1), (US_2, 2)], ["us-2", "us-1"],
                     id="the second group, best first, if the first has too few GPUs"),
        pytest.param(unit(EU, US, **PLACED), [(EU_1, 9), (US_1, 1)], ["us-1"],
                     id="the second group, if the limits of the first are too low"),
        pytest.param(unit(EU, US), [(US_1, 1)], ["us-1"], id="the second group, if the first has no cluster"),
        pytest.param(unit(US, maxClusters=1), [(US_1, 5), (US_2, 9)], ["us-2"], id="the best within maxClusters"),
        pytest.param(unit(US, maxClusters=1, replicas=8), [(cluster("us-1", gpus=(8, 2)), 9), (US_2, 5)], ["us-2"],
                     id="the largest capacity, if the best within maxClusters is too small"),
        pytest.param(unit(US, maxClusters=0), [(US_1, 5)], [], id="no cluster with maxClusters 0"),
        pytest.param(unit(EU, US, mode="Duplicate"), [(US_1, 5), (EU_1, 1)], ["eu-1"], id="no capacity for Duplicate"),
        pytest.param(unit(US, replicas=0), [(US_1, 1), (US_2, 2)], ["us-2", "us-1"], id="no replicas need no capacity"),
        pytest.param(unit(replicas=100), [(US_1, 1), (EU_1, 1)], ["eu-1", "us-1"], id="without groups all clusters"),
        pytest.param(unit(maxClusters=1), [(US_1, 2), (EU_1, 1)], ["us-1"], id="without groups the best"),
        pytest.param(
            unit(US, replicas=3, placements=[
                {"cluster": "us-2", "preferences": {"minReplicas": 3}},
                {"cluster": "us-1", "preferences": {"minReplicas": 1}},
            ]),
            [(US_1, 1), (US_2, 2)], ["us-2"], id="no cluster with a minimum above the replicas",
        ),
        pytest.param(
            unit(EU, replicas=9, currentReplicaDistribution={"eu-1": 4}), [(cluster("eu-1", "eu", gpus=(8, 5)), 1)],
            ["eu-1"], id="running replicas count as capacity",
        ),
        pytest.param(
            unit(EU, US, currentClusters=["eu-1"], currentReplicaDistribution={"eu-1": 0}),
            [(cluster("eu-1", "eu", gpus=(8, 0)), 1), (US_1, 1)],
            ["eu-1"], id="a running cluster without a number has capacity for all replicas",
        ),
        pytest.param(unit(EU, US, **RUNNING), [(TAINTED, 1), (US_1, 1)], ["us-1"],
                     id="a cluster with a NoSchedule taint gets no more replicas"),
        pytest.param(unit(EU, US, replicas=4, **RUNNING), [(TAINTED, 1), (US_1, 1)], ["eu-1"],
                     id="a cluster with a NoSchedule taint keeps its replicas"),
        pytest.param(unit(EU, US, tolerations=[{"operator": "Exists"}]), [(TAINTED, 1), (US_1, 1)], ["eu-1"],
                     id="a tolerated taint has no effect"),
        pytest.param(unit(US), [(cluster("us-1", gpus=(8, 0)), 9), (US_2, 1)], ["us-2"],
                     id="no cluster without capacity"),
        pytest.param(unit(US, replicas=8, **placements(**{"us-1": {"minReplicas": 5}})),
                     [(cluster("us-1", gpus=(8, 2)), 9), (US_2, 1)], ["us-2"],
                     id="no cluster with less capacity than its minimum"),
        pytest.param(unit(US, **placements(**{"us-1": {"minReplicas": 9, "maxReplicas": 4}})),
                     [(US_1, 9), (US_2, 1)], ["us-1", "us-2"], id="a minimum above the maximum is the maximum"),
        pytest.param(
            unit({"affinityName": "all"}, replicas=10, maxClusters=2,
                 **placements(a={"minReplicas": 9}, b={"minReplicas": 2}, c={"minReplicas": 2})),
            [(cluster("a", gpus=(9, 9)), 1), (cluster("b"), 1), (cluster("c"), 1)], ["b", "c"],
            id="not the largest capacity, if its minimum leaves too few replicas for others",
        ),
        pytest.param(unit(WIDENED, US), [(US_1, 9), (EU_1, 1), (AP_1, 5)], ["eu-1"],
                     id="no overflow while the group has enough capacity"),
        pytest.param(unit(WIDENED, US, replicas=12), [(US_1, 9), (US_2, 9), (EU_1, 1), (AP_1, 5)], ["ap-1", "eu-1"],
                     id="overflow before the next group"),
        pytest.param(unit(WIDENED, US, replicas=17), [(EU_1, 1), (AP_1, 5), (cluster("us-1", gpus=(20, 20)), 1)],
                     ["us-1"], id="the next group if overflow does not help"),
        pytest.param(unit(annotations={ANNOTATION: "[]"}), [(US_1, 1)], ["us-1"], id="an empty list of groups"),
    ],
)  # fmt: skip
def test_select(asked, scored, names):
    body, _ = call("select", many(asked, *scored))
    assert json.loads(body) == {"selectedClusterNames": names, "error": ""}


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=6),
    st.integers(1, 25),
    st.none() | st.integers(1, 6),
)
def test_select_finds_clusters_with_enough_capacity_if_there_are_some(drawn, replicas, limit):
    names = "abcdef"[: len(drawn)]
    capacities = {name: capacity for name, (_, capacity, _) in zip(names, drawn, strict=True)}
    minima = {name: minimum for name, (minimum, _, _) in zip(names, drawn, strict=True)}
    asked = unit(
        {"affinityName": "all"}, replicas=replicas, maxClusters=limit,
        **placements(**{name: {"minReplicas": minimum} for name, minimum in minima.items()}),
    )  # fmt: skip
    scored = [
        (cluster(name, gpus=(9, capacities[name])), score) for name, (_, _, score) in zip(names, drawn, strict=True)
    ]

    def holds(some) -> bool:
        return all(capacities[name] >= minima[name] for name in some) and sum(
            minima[name] for name in some
        ) <= replicas <= sum(capacities[name] for name in some)

    answer = json.loads(call("select", many(asked, *scored))[0])
    sizes = range(1, min(limit or len(names), len(names)) + 1)
    if any(holds(some) for size in sizes for some in combinations(names, size)):
        assert holds(answer["selectedClusterNames"])
        assert len(answer["selectedClusterNames"]) <= sizes[-1]
    else:
        assert answer["error"]


def test_the_error_of_select_has_the_capacity_of_each_group():
    body, metrics = call("select", many(unit(EU, US, replicas=50), (EU_1, 1), (US_1, 1)))
    answer = json.loads(body)
    assert answer["selectedClusterNames"] == []
    assert "eu: 1 of its clusters hold 8 of 50 replicas" in answer["error"]
    assert "us: 1 of its clusters hold 8 of 50 replicas" in answer["error"]
    assert metrics.calls_of("doubted") == [("kubeadmiral", "select")]


def annotated(text: str) -> bytes:
    return one(unit(annotations={ANNOTATION: text}), EU_1)


def grouped(**fields) -> bytes:
    return one(unit({"affinityName": "x", **fields}), EU_1)


INVALID = {
    "not JSON": b"{",
    "no unit": b'{"cluster": {"metadata": {"name": "a"}}}',
    "a cluster that is a number": b'{"schedulingUnit": {}, "cluster": 3}',
    "an annotation with invalid JSON": annotated("{"),
    "an annotation that is not a list": annotated("{}"),
    "a group without a name": annotated("[{}]"),
    "two groups with the same name": one(unit(EU, EU), EU_1),
    "an unknown operator": grouped(labelSelector={"matchExpressions": [{"key": "z", "operator": "in"}]}),
    "an invalid label value": grouped(
        overflowAffinities=[{"affinityName": "y", "labelSelector": {"matchLabels": {"zone": "e u"}}}]
    ),
    "a misspelt field": grouped(clusterName=["us-1"]),
}


@cases("body", INVALID)
def test_an_invalid_request_gets_an_answer_of_its_verb(body):
    answer, metrics = call("filter", body)
    assert answer == b'{"selected":true,"error":""}', "a cluster in doubt passes"
    assert metrics.calls_of("doubted") == [("kubeadmiral", "filter")]
    refused = {verb: json.loads(call(verb, body, pass_in_doubt=False)[0]) for verb in ("filter", "score", "select")}
    assert all(each.pop("error") for each in refused.values())
    assert refused == {"filter": {"selected": False}, "score": {"score": 0}, "select": {"selectedClusterNames": []}}


def test_clusters_of_no_request_are_counted_before_they_are_decoded():
    answer = json.loads(call("select", many(unit(EU), *[(EU_1, 1)] * (MAX_CLUSTERS + 1)))[0])
    assert answer == {
        "selectedClusterNames": [], "error": "clusterScores: about 10,001 clusters; at most 10,000 are read",
    }  # fmt: skip


GROUPS = st.lists(
    st.sampled_from([EU, US, WIDENED]), min_size=1, max_size=2, unique_by=lambda each: each["affinityName"]
)


@given(GROUPS, st.lists(st.sampled_from([EU_1, US_1, US_2, AP_1]), unique_by=lambda each: each["metadata"]["name"]))
def test_select_alone_leaves_out_what_the_filter_rejects(groups, clusters):
    """The profile has no filter: it would remove workloads while the extender is down."""
    asked = unit(*groups, mode="Duplicate")
    passed = [each for each in clusters if json.loads(call("filter", one(asked, each))[0])["selected"]]
    alone, behind = (json.loads(call("select", many(asked, *[(each, 1) for each in some]))[0])
                     for some in (clusters, passed))  # fmt: skip
    assert alone["selectedClusterNames"] == behind["selectedClusterNames"]
    assert bool(alone["error"]) == bool(behind["error"])


def test_the_error_of_an_invalid_annotation_has_its_path():
    answer = json.loads(call("select", many(unit(annotations={ANNOTATION: '[{"affinityName": 1}]'}), (EU_1, 1)))[0])
    assert f"metadata.annotations[{ANNOTATION}]" in answer["error"]
    assert "[0].affinityName: 1 is a number" in answer["error"]


@cases(
    ("verb", "status", "body"),
    {
        "a filter request that is too large passes": ("filter", 413, b'{"selected":true,"error":""}'),
        "a crashed filter passes": ("filter", 500, b'{"selected":true,"error":""}'),
        "an overdue score is an error": ("score", 503, b'{"score":0,"error":"late"}'),
        "an overdue select is an error": ("select", 503, b'{"selectedClusterNames":[],"error":"late"}'),
    },
)
def test_refusals_have_the_format_of_the_protocol(verb, status, body):
    route = next(each for each in routes() if each.path.endswith(verb))
    reply = route.refuse(problem(status, "late"))
    assert (reply.status, reply.body) == (200, body)


@pytest.mark.parametrize("status", [401, 403, 404, 405])
def test_other_statuses_are_sent_unchanged(status):
    assert all(route.refuse(problem(status, "no")).status == status for route in routes())


def test_nulls_and_unknown_fields_are_ignored():
    named = {**cluster("eu-1", "eu"), "extra": 1, "status": None}
    asked = {**unit(EU), "labels": None, "placements": None, "clusterAffinity": [{"matchExpressions": [
        {"key": "a", "operator": "Exists", "values": None}]}]}  # fmt: skip
    assert call("filter", one(asked, named))[0] == b'{"selected":true,"error":""}'


def named_groups(count: int, **each) -> list[dict]:
    return [{"affinityName": f"g{index}", **each} for index in range(count)]


def test_groups_above_a_limit_are_refused_with_the_field():
    asked = unit(*named_groups(3))
    problem = f"metadata.annotations[{ANNOTATION}]: 3 groups; at most 2 are scheduled; use fewer"
    answer, metrics = call("filter", one(asked, EU_1), pass_in_doubt=False, groups=2)
    assert json.loads(answer)["error"].startswith(problem)
    assert json.loads(call("filter", one(asked, EU_1), groups=2)[0]) == {"selected": True, "error": ""}
    assert json.loads(call("score", one(asked, EU_1), groups=2)[0])["error"].startswith(problem)
    assert json.loads(call("select", many(asked, (EU_1, 1)), groups=2)[0])["error"].startswith(problem)
    assert metrics.calls_of("doubted") == [("kubeadmiral", "filter")]


def test_too_many_tolerations_are_refused_with_the_field():
    asked = unit(EU, tolerations=[{"key": f"k{index}"} for index in range(3)])
    error = json.loads(call("select", many(asked, (EU_1, 1)), tolerations=2)[0])["error"]
    assert error.startswith("schedulingUnit.tolerations: 3 tolerations; at most 2 are scheduled")


def test_a_select_that_takes_too_many_steps_is_an_error():
    error = json.loads(call("select", many(unit(*named_groups(9, clusterNames=["x"])), (EU_1, 1)), steps=2000)[0])[
        "error"
    ]
    assert error.startswith("the decision takes more than 2,000 steps")


def test_an_error_names_the_first_groups_only():
    error = json.loads(call("select", many(unit(*named_groups(20, clusterNames=["x"])), (EU_1, 1)))[0])["error"]
    assert error.count("none of its clusters is left") == 16
    assert error.endswith("; and 4 more groups")


@given(
    st.lists(
        st.lists(
            st.sampled_from([EU, US, {"affinityName": "x", "clusterNames": ["eu-1", "ap-1"]}]), min_size=1, max_size=3
        ),
        min_size=1,
        max_size=3,
    )
)
def test_many_clusters_are_compared_by_columns_with_the_same_result(tiers):
    wanted = [{**first, "affinityName": f"g{n}", "overflowAffinities": more} for n, (first, *more) in enumerate(tiers)]
    groups = groups_of({ANNOTATION: json.dumps(wanted)})
    members = [cluster_of(convert(Member, each)) for each in (EU_1, US_1, US_2, AP_1)]
    by_calls = tiers_by(groups, members, Work())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(affinity_groups, "_FEW", 0)
        by_columns = tiers_by(groups, members, Work())
    assert [by_columns(group) for group in groups] == [by_calls(group) for group in groups]


def test_a_group_with_many_expressions_is_compared_with_all_clusters_at_once(monkeypatch):
    """Clusters times expressions, one by one, would take seconds."""
    compared = []
    monkeypatch.setattr(AffinityGroup, "tier", lambda _self, cluster: compared.append(cluster))
    expressions = [{"key": f"k{each}", "operator": "DoesNotExist"} for each in range(100)]
    text = json.dumps([{"affinityName": "g", "labelSelector": {"matchExpressions": expressions}}])
    groups = groups_of({ANNOTATION: text})
    labels = [{"k7": "x"} if each == 3 else {} for each in range(40)]
    members = [{"metadata": {"name": f"m{each}", "labels": given}} for each, given in enumerate(labels)]
    clusters = [cluster_of(convert(Member, each)) for each in members]
    tiers = tiers_by(groups, clusters, Work())(groups[0])
    assert [index for index, tier in enumerate(tiers) if tier is None] == [3]
    assert compared == []
