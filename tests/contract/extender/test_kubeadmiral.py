"""KubeAdmiral's scheduler webhook over sockets, with requests in its scheduler's format (payloads v1alpha1)."""

import json
from typing import Any

import pytest
from servers import Answer, Server, Wire, request

SCHEDULER = {"Accept": "application/json", "User_Agent": "kubeadmiral-scheduler", "Accept_Encoding": "gzip"}
GROUPS = [
    {"affinityName": "eu", "labelSelector": {"matchLabels": {"zone": "eu"}}},
    {"affinityName": "rest", "labelSelector": {"matchLabels": {"zone": "us"}}},
]


@pytest.fixture
def wire(server):
    with Wire(server.port) as opened:
        yield opened


def ask(wire: Wire, verb: str, body: bytes | dict[str, Any]) -> Answer:
    document = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
    wire.send(request("POST", f"/kubeadmiral/v1alpha1/{verb}", document, **SCHEDULER))
    return wire.answer()


def body_of(answer: Answer) -> str:
    """Return the body as text. Go cannot decode a float as int64, and only status 200 is a success."""
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    return answer.body.decode()


def unit(**fields: Any) -> dict[str, Any]:
    """Return a Divide unit with every field of KubeAdmiral, and lists in random order."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "resource": "deployments",
        "namespace": "shop",
        "name": "web",
        "labels": {"app": "web"},
        "annotations": {"policy.berthmaster.io/cluster-affinities": json.dumps(GROUPS)},
        "schedulingMode": "Divide",
        "desiredReplicas": 6,
        "resourceRequest": {"cpu": "0", "ephemeral-storage": "0", "memory": "0", "nvidia.com/gpu": "1"},
        "currentClusters": ["us-1"],
        "currentReplicaDistribution": {"us-1": 0},
        "clusterSelector": {"env": "prod"},
        "clusterAffinity": [{"matchExpressions": [{"key": "zone", "operator": "Exists", "values": None}]}],
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 300}],
        "maxClusters": 2,
        "placements": [
            {"cluster": "us-1", "preferences": {}},
            {"cluster": "eu-1", "preferences": {"minReplicas": 1, "maxReplicas": 8, "weight": 0}},
        ],
        **fields,
    }


def cluster(name: str, gpus: str = "8") -> dict[str, Any]:
    """A FederatedCluster as a typed informer gives it: neither apiVersion nor kind."""
    now = "2024-01-02T03:04:05Z"
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": now, "lastTransitionTime": now, "reason": "", "message": ""}
        for kind in ("Joined", "Ready")
    ]
    return {
        "metadata": {"name": name, "labels": {"zone": name[:2]}, "creationTimestamp": now, "managedFields": None},
        "spec": {
            "apiEndpoint": "https://10.0.0.1:6443",
            "useServiceAccount": True,
            "secretRef": {"name": name},
            "taints": [{"key": "k", "effect": "PreferNoSchedule", "timeAdded": None}],
        },
        "status": {
            "conditions": conditions,
            "resources": {
                "schedulableNodes": 3,
                "allocatable": {"cpu": "12", "nvidia.com/gpu": "8"},
                "available": {"cpu": "-500m", "nvidia.com/gpu": gpus},
            },
            "apiResourceTypes": [{"version": "v1", "kind": "Pod", "pluralName": "pods", "scope": "Namespaced"}],
            "joinPerformed": True,
        },
    }


def one(name: str, **fields: Any) -> dict[str, Any]:
    return {"schedulingUnit": unit(**fields), "cluster": cluster(name)}


def many(*scored: tuple[str, int], **fields: Any) -> dict[str, Any]:
    scores = [{"cluster": cluster(name), "score": score} for name, score in scored]
    return {"schedulingUnit": unit(**fields), "clusterScores": scores}


@pytest.mark.parametrize(
    ("verb", "body", "answer"),
    [
        pytest.param("filter", one("eu-1"), '{"selected":true,"error":""}', id="filter: a cluster of a group"),
        pytest.param("filter", one("ap-1"), '{"selected":false,"error":""}', id="filter: a cluster of none"),
        pytest.param("filter", one("ap-1", annotations=None), '{"selected":true,"error":""}', id="filter: no groups"),
        pytest.param("score", one("eu-1"), '{"score":2,"error":""}', id="score: the first group"),
        pytest.param("score", one("us-1"), '{"score":1,"error":""}', id="score: the second"),
        pytest.param(
            "select",
            many(("us-1", 100), ("eu-1", 0)),
            '{"selectedClusterNames":["eu-1"],"error":""}',
            id="select: the first group that holds it",
        ),
        pytest.param(
            "select",
            many(("us-1", 100), ("us-2", 7), ("eu-1", 0), desiredReplicas=12),
            '{"selectedClusterNames":["us-1","us-2"],"error":""}',
            id="select: the next group, in the order of scores",
        ),
        pytest.param(
            "select",
            many(("us-1", 1), schedulingMode="Duplicate", desiredReplicas=None, placements=None),
            '{"selectedClusterNames":["us-1"],"error":""}',
            id="select: Duplicate, absent fields",
        ),
        pytest.param("filter", b"", '{"selected":true,"error":""}', id="filter: an empty body passes"),
        pytest.param("filter", b"{" * 999, '{"selected":true,"error":""}', id="filter: garbage passes"),
        pytest.param("filter", b" " * 70_000, '{"selected":true,"error":""}', id="filter: too large a body passes"),
    ],
)
def test_answers(wire, verb, body, answer):
    assert body_of(ask(wire, verb, body)) == answer


VERBS = ["filter", "score", "select"]


def doubts(server: Server) -> dict[str, float]:
    name = 'berthmaster_extender_answers_in_doubt_total{protocol="kubeadmiral",reason='
    lines = [line.removeprefix(name) for line in server.metrics().splitlines() if line.startswith(name)]
    counts = {line.partition("}")[0].strip('"'): float(line.rpartition(" ")[2]) for line in lines}
    return {verb: counts.get(verb, 0.0) for verb in VERBS}


def test_an_answer_in_doubt_is_counted_and_logged_once(server):
    before, names = doubts(server), []
    for verb in VERBS:
        for body in (b"{", b" " * 70_000):  # invalid, and too large
            names.append(f"{verb}-{len(body)}")
            document = request("POST", f"/kubeadmiral/v1alpha1/{verb}", body, **SCHEDULER, X_Request_Id=names[-1])
            with Wire(server.port) as wire:
                wire.send(document)
                assert wire.answer().status == 200
    assert doubts(server) == {verb: count + 2 for verb, count in before.items()}
    for name in names:
        logged = [line for line in server.log.read_text().splitlines() if name in line]
        [line] = [line for line in logged if "could not be decided" in line]
        assert "WARNING" in line.upper()


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'{"schedulingUnit":3}', b" " * 70_000], ids=repr)
@pytest.mark.parametrize(("verb", "empty"), [("score", {"score": 0}), ("select", {"selectedClusterNames": []})])
def test_score_and_select_answer_an_invalid_body_with_an_error(wire, verb, empty, body):
    answer = json.loads(body_of(ask(wire, verb, body)))
    assert answer.pop("error")
    assert answer == empty


def test_one_connection_serves_a_whole_attempt(wire):
    for name in ("eu-1", "us-1", "ap-1"):
        ask(wire, "filter", one(name))
    assert json.loads(body_of(ask(wire, "score", one("us-1"))))["score"] == 1
    assert json.loads(body_of(ask(wire, "select", many(("us-1", 1)))))["selectedClusterNames"] == ["us-1"]
