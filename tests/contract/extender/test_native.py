"""The native API over sockets."""

import re
import time

import msgspec
from conftest import ROOT
from servers import Wire, request
from tables import cases
from waiting import LIMIT_S, wait_for

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
        "a change of an unknown cluster": ("/v1/simulate", changes(type="down", cluster="nowhere"), "changes[1]"),
        "an unknown taint effect": (
            "/v1/simulate", changes(type="taint", cluster="member1", taint={"key": "a", "effect": "Never"}),
            "changes[1].taint.effect",
        ),
        "an invalid resource name": (
            "/v1/simulate", changes(type="scale", resource="nginx", replicas=1), "changes[1].resource"
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
    "down", "taint", "label", "scale", "reschedule", "policy", "untaint", "unlabel", "up", "addCluster",
    "removeCluster",
)  # fmt: skip


@cases(
    ("change", "detail"),
    {
        "a field of one of several kinds of change": (
            {"type": "policy", "policy": {"kind": "Policy", "metadata": {}, "spec": {}}},
            "'Policy' is not accepted; accepted are PropagationPolicy, ClusterPropagationPolicy",
        ),
        "a kind of change": (
            {"type": "explode"},
            f"'explode' is not accepted; accepted are {', '.join(CHANGES)}",
        ),
    },
)
def test_the_error_of_an_unknown_value_has_the_accepted_values(server, change, detail):
    assert decoded(ask(server, "POST", "/v1/simulate", {"changes": [change]}))["errors"][0]["detail"] == detail


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


def test_a_batch_has_an_answer_for_each_line(server):
    line = msgspec.json.encode({"id": "a", **examples.SCHEDULE_OWN_FLEET})
    answer = ask(server, "POST", "/v1/schedule/batch", b"\n".join([line, b"{}", b"", b"  ", b"[", line]), LINES)
    rows = lines_of(answer)
    assert [(row.get("id"), row["line"], "decision" in row) for row in rows] == [
        ("a", 1, True),
        (None, 2, False),
        (None, 3, False),
        ("a", 4, True),
    ]
    assert answer.headers["content-type"] == LINES


def test_a_plan_with_progress_ends_with_the_plan(server):
    body = msgspec.json.encode(examples.PLAN, order="sorted") + b"\n"
    answer = ask(server, "POST", "/v1/plan/progress", body.replace(b",", b",\n", 3))
    last = lines_of(answer)[-1]
    assert last["plan"]["plan"] == decoded(ask(server, "POST", "/v1/plan", examples.PLAN))["plan"]
    assert (answer.status, answer.headers["content-type"]) == (200, LINES)
    refused = ask(server, "POST", "/v1/plan/progress", b"{")
    assert (refused.status, refused.headers["content-type"]) == (400, "application/problem+json")


def test_a_client_may_wait_for_an_answer_before_it_sends_the_next_line(server):
    line = msgspec.json.encode({"id": 7, **examples.SCHEDULE}) + b"\n"
    with Wire(server.port) as wire:
        wire.send(request("POST", "/v1/schedule/batch", b"", LINES, Transfer_Encoding="chunked"))
        received = b""
        for number in (1, 2, 3):
            wire.send(b"%x\r\n%b\r\n" % (len(line), line))
            while b'"line":%d' % number not in received:
                received += wire.socket.recv(65536)
        wire.send(b"0\r\n\r\n")
        while not received.endswith(b"0\r\n\r\n"):
            received += wire.socket.recv(65536)
    assert received.count(b'"id":7') == 3


def test_a_client_may_send_a_whole_batch_before_it_reads(server):
    line = msgspec.json.encode({"id": "x" * 8000, **examples.SCHEDULE}) + b"\n"
    with Wire(server.port) as wire:
        wire.send(request("POST", "/v1/schedule/batch", line * 800, LINES))  # the answers are as large
        time.sleep(0.2)
        assert wire.answer().body.count(b'"decision"') == 800


@cases(
    ("body", "answered", "detail"),
    {
        "too many lines": (b"{}\n" * 1001, 1000, "more than 1000 lines"),
        "a line that is too long": (b"{}\n" + b" " * 20_000, 1, "a line has more than 16384 bytes"),
    },
)
def test_a_batch_above_a_limit_ends(server, body, answered, detail):
    rows = lines_of(ask(server, "POST", "/v1/schedule/batch", body, LINES))
    assert len(rows) == answered + 1
    assert (rows[-1]["problem"]["status"], rows[-1]["problem"]["detail"]) == (413, detail)


def test_an_incomplete_batch_times_out(hasty):
    with Wire(hasty.port) as wire:
        start = time.monotonic()
        wire.send(request("POST", "/v1/schedule/batch", b"{}\n", LINES, Content_Length="100"))
        rows = lines_of(wire.answer())
    assert [row["problem"]["status"] for row in rows] == [400, 408]
    assert time.monotonic() - start < LIMIT_S


def test_the_example_of_the_documentation_works(server):
    section = (ROOT / "docs" / "extender.md").read_text().partition("### Simulate")[2].partition("\n### ")[0]
    (example,) = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    answer = decoded(ask(server, "POST", "/v1/simulate", msgspec.json.decode(example)))
    assert answer["rows"][0]["after"]["replicas"] == 12


def test_workloads_that_do_not_move_are_returned_on_request_only(server):
    change = {"changes": [{"type": "label", "cluster": "member5", "key": "a", "value": "b"}]}
    assert decoded(ask(server, "POST", "/v1/simulate", change))["rows"] == []
    assert len(decoded(ask(server, "POST", "/v1/simulate", {**change, "all": True}))["rows"]) == 1


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
