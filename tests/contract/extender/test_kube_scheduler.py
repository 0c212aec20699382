"""kube-scheduler's protocol over sockets, with recorded requests of kube-scheduler v1.36."""

import json
from pathlib import Path
from typing import Any

import pytest
from servers import Answer, Server, Wire, request, running

RECORDED = Path(__file__).parent / "recorded" / "kube_scheduler"
TIERS = {"liqo-milan": "gold", "liqo-paris": "gold", "liqo-tokyo": "silver"}
GO = {"User_Agent": "Go-http-client/1.1", "Accept_Encoding": "gzip"}


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Server:
    folder = tmp_path_factory.mktemp("nodes")
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"tier": tier}},
            "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "110"}},
        }
        for name, tier in TIERS.items()
    ]
    (folder / "nodes.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    log = tmp_path_factory.mktemp("extender") / "log"
    with running("extender", "-f", folder, "--workers", 1, log=log) as started:
        yield started
        assert "Traceback" not in log.read_text(), log.read_text()


@pytest.fixture
def wire(service):
    with Wire(service.port) as opened:
        yield opened


def ask(wire: Wire, verb: str, body: bytes | dict[str, Any]) -> Answer:
    document = body if isinstance(body, bytes) else json.dumps(body).encode()
    wire.send(request("POST", f"/kube-scheduler/{verb}", document, **GO))
    return wire.answer()


def decoded(answer: Answer) -> Any:
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    return json.loads(answer.body)


def recorded(name: str) -> dict[str, Any]:
    return json.loads((RECORDED / f"{name}.json").read_text())


def kept(result: dict[str, Any], shape: str) -> list[str]:
    """Return the nodes that kube-scheduler reads from a result, for names or nodes in the request."""
    assert set(result) == {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}
    assert result["Error"] == ""
    if shape == "names":
        assert result["Nodes"] is None
        return result["NodeNames"]
    assert result["NodeNames"] is None
    return [item["metadata"]["name"] for item in result["Nodes"]["items"]]


both = pytest.mark.parametrize("shape", ["names", "nodes"])


@both
def test_filter(wire, shape):
    result = decoded(ask(wire, "filter", recorded(f"{shape}-filter")))
    assert kept(result, shape) == ["liqo-milan", "liqo-paris"]
    later = "node(s) of cluster group backup, after primary, for annotation"
    assert result["FailedAndUnresolvableNodes"] == {"liqo-tokyo": later}
    assert result["FailedNodes"] == {}


@both
def test_filter_of_a_nominated_node(wire, shape):
    asked = recorded(f"{shape}-filter-nominated")
    assert kept(decoded(ask(wire, "filter", asked)), shape) == [asked["Pod"]["status"]["nominatedNodeName"]]


@both
def test_prioritize(wire, shape):
    result = decoded(ask(wire, "prioritize", recorded(f"{shape}-prioritize")))
    assert result == [{"Host": "liqo-milan", "Score": 10}, {"Host": "liqo-paris", "Score": 10}]


@both
def test_preempt(wire, shape):
    asked = recorded(f"{shape}-preempt")
    candidates = asked["NodeNameToMetaVictims"] or asked["NodeNameToVictims"]
    assert set(candidates) == set(TIERS), "kube-scheduler offers all nodes as candidates"
    result = decoded(ask(wire, "preempt", asked))
    assert list(result) == ["NodeNameToMetaVictims"]
    assert set(result["NodeNameToMetaVictims"]) == {"liqo-milan", "liqo-paris"}
    for node, victims in result["NodeNameToMetaVictims"].items():
        uids = [victim.get("UID") or victim["metadata"]["uid"] for victim in candidates[node]["Pods"]]
        assert victims == {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}


def test_a_request_that_is_too_large_is_logged_with_its_bound(tmp_path):
    """kube-scheduler reports only the status of a refusal."""
    log = tmp_path / "log"
    with running("extender", "--workers", 1, "--max-body-bytes", 2048, log=log) as small, Wire(small.port) as wire:
        answer = ask(wire, "filter", b'{"Pod": {}, "NodeNames": ["' + b"x" * 4096 + b'"]}')
        assert answer.status == 413
        why = json.loads(answer.body)["detail"]
    assert "the limit is 2048; raise --max-body-bytes, or let kube-scheduler send names only" in why
    assert why in log.read_text()
