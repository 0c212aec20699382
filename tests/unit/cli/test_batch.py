"""`berthmaster simulate --jsonl`: JSON Lines in, JSON Lines out."""

import gzip
import json
from pathlib import Path

import msgspec.structs
from click.testing import CliRunner
from tables import cases, data

from berthmaster_cli import batch
from berthmaster_cli.kubeadmiral import lines
from berthmaster_cli.main import main

VECTORS = Path(__file__).resolve().parents[2] / "conformance"


def answers(lines: bytes) -> list[dict]:
    result = CliRunner().invoke(main, ["simulate", "--jsonl"], input=lines)
    assert result.exit_code == 0, repr(result.exception)
    return [json.loads(line) for line in result.stdout.splitlines()]


@cases(("name", "key"), {"fleets of Karmada": ("karmada", "results"), "federations": ("kubeadmiral", "result")})
def test_recorded_lines_are_answered_as_recorded(name, key):
    with gzip.open(VECTORS / f"{name}.jsonl.gz") as file:
        recorded = [json.loads(line) for line, _ in zip(file, range(60), strict=False)]
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in recorded)
    assert answers(lines) == [{"id": each["id"], key: each[key]} for each in recorded]


@cases(
    ("line", "answer"),
    {
        **{name: (each["line"].encode(), each["answer"]) for name, each in data("bad_lines").items()},
        "not text": (b"\xff\xfe", {"id": None, "path": "", "message": "not valid JSON"}),
        "nested too deeply": (b"[" * 100_000, {"id": None, "path": "", "message": ""}),
    },
)
def test_a_bad_line_has_an_error_and_the_next_line_is_answered(line, answer):
    good = b'{"id": "next", "clusters": [], "bindings": []}'
    error_answer, following = answers(line + b"\n" + good)
    assert following == {"id": "next", "results": []}
    assert error_answer["id"] == answer["id"]
    assert error_answer["error"]["path"] == answer["path"]
    assert answer["message"] in error_answer["error"]["message"]


def test_empty_lines_have_no_answer():
    assert answers(b'\n\n{"id": 1, "clusters": [], "bindings": []}\n\n') == [{"id": 1, "results": []}]


@cases(
    ("change", "path"),
    {
        "a limit that is not a number": ({"policy": {"maxClusters": "two"}}, "policy.maxClusters"),
        "an object without apiVersion": ({"object": {"kind": "Deployment", "name": "x"}}, "object.apiVersion"),
        "a duplicate cluster": (
            {"clusters": [{"metadata": {"name": "a"}}, {"metadata": {"name": "a"}}]},
            "clusters[1].metadata.name",
        ),
    },
)
def test_a_bad_federation_has_an_error_with_its_path(change, path):
    line = {
        "id": 7,
        "clusters": [],
        "policy": {"schedulingMode": "Divide"},
        "object": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
    }
    (error_answer,) = answers(json.dumps({**line, **change}).encode())
    assert (error_answer["id"], error_answer["error"]["path"]) == (7, path)


def test_a_placement_above_a_limit_has_a_message_and_the_others_are_answered():
    groups = {"clusterAffinities": [{"affinityName": f"g{index}"} for index in range(1025)]}
    expression = {"key": "zone", "operator": "Gt", "values": []}
    zone = {"clusterAffinity": {"fieldSelector": {"matchExpressions": [expression]}}}
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}
    placements = {"large": groups, "wrong": zone, "fine": {}}
    bindings = [{"name": name, "spec": {"resource": resource, "placement": each}} for name, each in placements.items()]
    served = {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}
    clusters = [{"metadata": {"name": "a"}, "status": {"apiEnablements": [served]}}]
    line = {"clusters": clusters, "bindings": bindings}
    [answer] = answers(json.dumps(line).encode() + b"\n")
    large, wrong, fine = answer["results"]
    assert large["error"] == "TooLarge"
    assert large["message"].startswith("spec.placement.clusterAffinities: 1,025 groups; at most 1,024 are scheduled")
    assert (wrong["error"], fine["error"], fine["clusters"]) == ("NoFit", None, {"a": 0})
    assert "message" not in fine


def test_a_policy_above_a_limit_has_a_message():
    member = {"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Joined", "status": "True"}]}}
    line = {
        "clusters": [member],
        "policy": {"tolerations": [{"key": f"k{index}"} for index in range(257)]},
        "object": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    }
    [answer] = answers(json.dumps(line).encode() + b"\n")
    assert answer["result"]["error"] == "TooLarge"
    assert answer["result"]["message"].startswith("spec.tolerations: 257 tolerations; at most 256 are scheduled")


def test_the_page_names_every_field_of_lines_and_answers():
    page = (Path(__file__).parents[3] / "docs" / "simulate.md").read_text().split("## JSON Lines")[1]
    types = (
        batch.KarmadaLine, batch.NamedBinding, batch.BindingResult, batch.KarmadaAnswer, lines.FederationLine,
        lines.ObjectToSchedule, lines.FederationResult, lines.BatchFederationAnswer, batch.LineError, batch.LineProblem,
    )  # fmt: skip
    ignored = {"resource"}
    names = {field.encode_name for kind in types for field in msgspec.structs.fields(kind)} - ignored
    assert {name for name in names if f"`{name}`" not in page} == set()
