"""`berthmaster simulate --jsonl`: a line in, a line out."""

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from berthmaster_cli.main import main

VECTORS = Path(__file__).resolve().parents[2] / "conformance" / "karmada.jsonl.gz"


def answers(lines: bytes) -> list[dict]:
    result = CliRunner().invoke(main, ["simulate", "--jsonl"], input=lines)
    assert result.exit_code == 0, repr(result.exception)
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_recorded_fleets_are_answered_as_recorded():
    with gzip.open(VECTORS) as file:
        recorded = [json.loads(line) for line, _ in zip(file, range(40), strict=False)]
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in recorded)
    assert answers(lines) == [{"id": each["id"], "results": each["results"]} for each in recorded]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        pytest.param(b"{", {"id": None, "path": "", "said": "not valid JSON"}, id="not JSON"),
        pytest.param(b"[]", {"id": None, "path": "", "said": "accepted is object"}, id="no object"),
        pytest.param(b'{"id": 1}', {"id": 1, "path": "", "said": "`clusters`"}, id="no clusters"),
        pytest.param(
            b'{"id": "a", "clusters": [{"metadata": {"name": 1}}], "bindings": []}',
            {"id": "a", "path": "clusters[0].metadata.name", "said": "1 is an int; accepted is str"},
            id="a name that is a number",
        ),
        pytest.param(
            b'{"id": "a", "clusters": [{"metadata": {"name": "x"}}, {"metadata": {"name": "x"}}], "bindings": []}',
            {"id": "a", "path": "clusters[1].metadata.name", "said": "is a duplicate"},
            id="a cluster twice",
        ),
        pytest.param(
            b'{"id": "a", "clusters": [{"metadata": {}}], "bindings": []}',
            {"id": "a", "path": "clusters[0].metadata.name", "said": "is missing"},
            id="a cluster without a name",
        ),
        pytest.param(
            b'{"id": "a", "clusters": [], "bindings": [{"name": "b", "spec": {"resource": {"apiVersion": "v1", '
            b'"kind": "P", "name": "p"}, "replicaRequirements": {"resourceRequest": {"cpu": "lots"}}}}]}',
            {
                "id": "a",
                "path": "bindings[0].spec.replicaRequirements.resourceRequest[cpu]",
                "said": "'lots' is not a quantity",
            },
            id="a request that is no quantity",
        ),
        pytest.param(b"\xff\xfe", {"id": None, "path": "", "said": "not valid JSON"}, id="not even text"),
        pytest.param(b"[" * 100_000, {"id": None, "path": "", "said": ""}, id="nested beyond all bounds"),
    ],
)
def test_a_bad_line_is_answered_and_the_next_one_as_well(line, answer):
    good = b'{"id": "next", "clusters": [], "bindings": []}'
    refusal, following = answers(line + b"\n" + good)
    assert following == {"id": "next", "results": []}
    assert refusal["id"] == answer["id"]
    assert refusal["error"]["path"] == answer["path"]
    assert answer["said"] in refusal["error"]["message"]


def test_an_empty_line_is_passed_over():
    assert answers(b'\n\n{"id": 1, "clusters": [], "bindings": []}\n\n') == [{"id": 1, "results": []}]


def test_an_empty_fleet_fits_nothing():
    resource = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}
    line = {"id": 1, "clusters": [], "bindings": [{"name": "b", "spec": {"resource": resource}}]}
    (answer,) = answers(json.dumps(line).encode())
    assert answer["results"] == [{"name": "b", "affinity": None, "clusters": {}, "error": "NoFit"}]


FEDERATED = Path(__file__).resolve().parents[2] / "conformance" / "kubeadmiral.jsonl.gz"


def test_recorded_federations_are_answered_as_recorded():
    with gzip.open(FEDERATED) as file:
        recorded = [json.loads(line) for line, _ in zip(file, range(60), strict=False)]
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in recorded)
    assert answers(lines) == [{"id": each["id"], "result": each["result"]} for each in recorded]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param({"policy": {"maxClusters": "two"}}, "policy.maxClusters", id="a limit that is no number"),
        pytest.param({"object": {"kind": "Deployment", "name": "x"}}, "object", id="an object without apiVersion"),
        pytest.param(
            {"clusters": [{"metadata": {"name": "a"}}, {"metadata": {"name": "a"}}]},
            "clusters[1].metadata.name",
            id="a cluster twice",
        ),
    ],
)
def test_a_bad_federation_is_refused_with_its_path(change, path):
    line = {
        "id": 7,
        "clusters": [],
        "policy": {"schedulingMode": "Divide"},
        "object": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
    }
    (refusal,) = answers(json.dumps({**line, **change}).encode())
    assert (refusal["id"], refusal["error"]["path"]) == (7, path)
