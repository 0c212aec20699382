"""The native API over sockets."""

import re

import msgspec
from conftest import ROOT
from servers import Wire, request
from tables import cases
from waiting import wait_for

from extender.protocols.native import examples

LINES = "application/x-ndjson"


def ask(server, method, path, body=None, content_type="application/json"):
    encoded = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
    with Wire(server.port) as wire:
        wire.send(request(method, path, encoded, content_type))
        return wire.answer()


def decoded(answer):
    return msgspec.json.decode(answer.body)


def lines_of(answer):
    return [msgspec.json.decode(each) for each in answer.body.splitlines()]


ON_MEMBER2 = {"spec": {**examples.BINDING["spec"], "placement": {"clusterAffinity": {"clusterNames": ["member2"]}}}}


def test_a_request_without_clusters_uses_the_fleet_of_the_service(server):
    decided = decoded(ask(server, "POST", "/v1/schedule", {"binding": ON_MEMBER2}))
    assert decided["clusters"] == {"member2": 6}
    assert "diagnosis" not in decided


def changes(**change):
    return {"changes": [{"type": "down", "cluster": "member1"}, change]}


@cases(
    ("path", "body", "at"),
    {
        "no binding": ("/v1/schedule", {}, "binding"),
        "a value of the wrong type": ("/v1/schedule", {"binding": {"spec": 1}}, "binding.spec"),
        "a number out of range": (
            "/v1/schedule", {"binding": {"spec": {**examples.BINDING["spec"], "replicas": -1}}}, "binding.spec.replicas"
        ),
        "a duplicate cluster": (
            "/v1/schedule", {"binding": examples.BINDING, "clusters": [examples.CLUSTERS[0]] * 2},
            "clusters[1].metadata.name",
        ),
        "an unknown field": ("/v1/schedule", {"binding": examples.BINDING, "cluster": []}, ""),
        "an unknown query parameter": ("/v1/schedule?explian=1", examples.SCHEDULE, "?explian"),
        "a query parameter that is not a boolean": ("/v1/schedule?explain=yes", examples.SCHEDULE, "?explain"),
        "a change of an unknown cluster": ("/v1/plan", changes(type="down", cluster="nowhere"), "changes[1]"),
        "an unknown taint effect": (
            "/v1/plan", changes(type="taint", cluster="member1", taint={"key": "a", "effect": "Never"}),
            "changes[1].taint.effect",
        ),
        "an invalid resource name": (
            "/v1/plan", changes(type="scale", resource="nginx", replicas=1), "changes[1].resource"
        ),
    },
)  # fmt: skip
def test_the_error_of_an_invalid_value_has_its_path(server, path, body, at):
    answer = ask(server, "POST", path, body)
    problem = decoded(answer)
    assert (answer.status, problem["status"]) == (400, 400)
    assert [error["path"] for error in problem["errors"]] == [at], problem
    assert problem["requestId"] == answer.headers["x-request-id"]


CHANGES = (
    "down", "up", "taint", "untaint", "label", "unlabel", "removeCluster", "addCluster", "scale", "reschedule",
)  # fmt: skip


@cases(
    ("change", "detail"),
    {
        "a field of one of several kinds of change": (
            {"type": "scale", "resource": 5, "replicas": 1},
            "5 is a number, where a text is accepted",
        ),
        "a kind of change": (
            {"type": "explode"},
            f"'explode' is not accepted; accepted are {', '.join(CHANGES)}",
        ),
    },
)
def test_the_error_of_an_unknown_value_has_the_accepted_values(server, change, detail):
    assert decoded(ask(server, "POST", "/v1/plan", {"changes": [change]}))["errors"][0]["detail"] == detail


def test_a_problem_has_every_invalid_value(server):
    negative = {"resourceRequest": {"cpu": "-1", "memory": "-2"}}
    binding = {"spec": {**examples.BINDING["spec"], "replicaRequirements": negative}}
    problem = decoded(ask(server, "POST", "/v1/schedule", {"binding": binding}))
    where = "binding.spec.replicaRequirements.resourceRequest"
    assert [error["path"] for error in problem["errors"]] == [f"{where}[cpu]", f"{where}[memory]"]
    assert problem["detail"].endswith("(and 1 more)")


def test_another_content_type_is_refused(server):
    answer = ask(server, "POST", "/v1/schedule", examples.SCHEDULE, "text/plain")
    assert answer.status == 415
    assert "accepted is application/json" in decoded(answer)["detail"]


def test_a_plan_with_progress_ends_with_the_plan(server):
    body = msgspec.json.encode(examples.PLAN, order="sorted") + b"\n"
    answer = ask(server, "POST", "/v1/plan/progress", body.replace(b",", b",\n", 3))
    last = lines_of(answer)[-1]
    assert last["plan"]["plan"] == decoded(ask(server, "POST", "/v1/plan", examples.PLAN))["plan"]
    assert (answer.status, answer.headers["content-type"]) == (200, LINES)
    refused = ask(server, "POST", "/v1/plan/progress", b"{")
    assert (refused.status, refused.headers["content-type"]) == (400, "application/problem+json")


def test_the_example_of_the_documentation_works(server):
    section = (ROOT / "docs" / "extender-plans.md").read_text().partition("## Plan")[2].partition("\n## ")[0]
    example, _ = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    answer = decoded(ask(server, "POST", "/v1/plan", msgspec.json.decode(example)))
    assert sum(answer["plan"]["moves"][0]["after"].values()) == 12


def test_the_fleet_is_listed_in_pages(server):
    first = decoded(ask(server, "GET", "/v1/clusters?limit=3"))
    second = decoded(ask(server, "GET", f"/v1/clusters?limit=3&after={first['next']}"))
    assert [each["name"] for each in first["items"] + second["items"]] == [f"member{number}" for number in range(1, 6)]
    assert (first["total"], second["next"], first["staleness"]["problem"]) == (5, None, "")


def test_a_binding_is_returned_without_a_decision(server):
    known = decoded(ask(server, "GET", "/v1/bindings/default/nginx-deployment"))
    assert (known["present"], known["clusters"], known["observedGroup"]) == (False, {}, None), "it is not stored yet"


@cases(
    "path",
    {
        "a cluster-scoped binding": "/v1/clusterbindings/nothing/decision",
        "the placeholders of the documentation": "/v1/bindings/%7Bnamespace%7D/%7Bname%7D/decision",
    },
)
def test_an_unknown_binding_is_not_found(server, path):
    answer = ask(server, "GET", path)
    assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")
    assert "there is no binding" in decoded(answer)["detail"]


def test_metrics_count_decisions(server):
    ask(server, "POST", "/v1/schedule", {"binding": ON_MEMBER2})  # its caches count, no others
    wanted = (
        'berthmaster_extender_decisions_total{protocol="native",result="Placed",trigger="First"}',
        'berthmaster_extender_stage_duration_seconds_count{protocol="native",stage="decide"}',
        "berthmaster_extender_fleet_clusters 5.0",
        'berthmaster_extender_cache_lookups_total{cache="plan",result="miss"}',
        "berthmaster_extender_state_stale 0.0",
    )

    def missing():
        text = server.metrics()
        return [each for each in wanted if each not in text]

    wait_for(lambda: not missing(), missing)
