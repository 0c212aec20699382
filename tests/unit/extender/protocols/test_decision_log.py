"""What is on record: decisions and their history."""

import json
import logging
from pathlib import Path

import pytest
from extender_services import asked, refusing, route_of, services_of
from fake_clock import FakeClock
from kube_scheduler_builders import Service, group, node, pod, with_names
from ledger_histories import filled, sqlite_url
from tables import cases

from berthmaster.ledger.reader import LedgerReader
from berthmaster.model.errors import InputError
from extender.protocols import kube_scheduler, kubeadmiral, native
from extender.protocols.native import examples
from extender.protocols.problem import Refusal
from extender.protocols.services import Call, DecisionLog

GOLD, SILVER = group("primary", tier="gold"), group("backup", tier="silver")
FLEET = [node("g1", tier="gold"), node("s1", tier="silver")]
UNIT = {
    "kind": "Deployment",
    "namespace": "shop",
    "name": "web",
    "annotations": {
        "policy.berthmaster.io/cluster-affinities": json.dumps([{"affinityName": "eu", "clusterNames": ["eu-1"]}])
    },
}
MEMBER = {"metadata": {"name": "eu-1"}}
REPLICAS = {"private-1": 6}


def logged(path, body, caplog):
    caplog.set_level(logging.INFO, "decisions")
    services = services_of(state=Service(FLEET).state, log=logging.getLogger("decisions"))
    [route] = [
        each for each in (*native.routes(), *kubeadmiral.routes(), *kube_scheduler.routes()) if each.path == path
    ]
    route.handler(services, Call("request-1", 1e9, body if isinstance(body, bytes) else json.dumps(body).encode()))
    [record] = [each for each in caplog.records if each.getMessage() == "decision"]
    assert record.fields.pop("request_id") == "request-1"
    assert record.fields.pop("duration_ms") >= 0
    return record.fields


@cases(
    ("path", "body", "expected"),
    {
        "native schedule": (
            "/v1/schedule",
            examples.SCHEDULE_OWN_FLEET,
            {"workload": "shop/web-deployment", "result": "Placed", "group": "private", "assignment": REPLICAS},
        ),
        "KubeAdmiral filter": (
            "/kubeadmiral/v1alpha1/filter",
            {"schedulingUnit": UNIT, "cluster": MEMBER},
            {"workload": "Deployment shop/web", "result": "passed", "group": "eu", "cluster": "eu-1"},
        ),
        "KubeAdmiral select": (
            "/kubeadmiral/v1alpha1/select",
            {"schedulingUnit": UNIT, "clusterScores": [{"cluster": MEMBER, "score": 1}]},
            {"workload": "Deployment shop/web", "result": "selected", "group": "eu", "clusters": ["eu-1"]},
        ),
        "KubeAdmiral select without a cluster": (
            "/kubeadmiral/v1alpha1/select",
            {"schedulingUnit": UNIT, "clusterScores": []},
            {"result": "failed", "error": "no group can hold the workload: eu: none of its clusters is left"},
        ),
        "kube-scheduler filter": (
            "/kube-scheduler/filter",
            with_names(pod(GOLD, SILVER), ["g1", "s1"]),
            {"workload": "shop/web-1", "result": "placed", "group": "primary", "nodes": 1, "rejected": 1},
        ),
        "kube-scheduler prioritize": (
            "/kube-scheduler/prioritize",
            with_names(pod(GOLD, SILVER), ["g1", "s1"]),
            {"workload": "shop/web-1", "scores": {"g1": 10, "s1": 5}},
        ),
        "kube-scheduler preempt": (
            "/kube-scheduler/preempt",
            {"Pod": pod(GOLD), "NodeNameToMetaVictims": {"g1": {"Pods": [{"UID": "u"}]}}},
            {"workload": "shop/web-1", "result": "allowed", "nodes": ["g1"]},
        ),
    },
)
def test_each_decision_is_one_line(path, body, expected, caplog):
    fields = logged(path, body, caplog)
    assert fields["protocol"] == {"v1": "native"}.get(path.split("/")[1], path.split("/")[1])
    assert path.endswith(fields["verb"])
    assert expected.items() <= fields.items()


def test_lines_above_the_rate_are_counted_instead(caplog):
    caplog.set_level(logging.INFO, "decisions")
    clock, call = FakeClock(), Call("request-1", 1e9)
    log = DecisionLog(logging.getLogger("decisions"), clock)
    for _ in range(250):
        log.write(call, "native", "schedule", clock.monotonic_s(), dict)
    assert len(caplog.records) == 100
    clock.pass_by(1)
    log.write(call, "native", "schedule", clock.monotonic_s(), dict)
    assert caplog.records[-1].suppressed == 150


def test_a_disabled_line_costs_no_details():
    log = DecisionLog(logging.getLogger("decisions.disabled"), FakeClock())
    logging.getLogger("decisions.disabled").setLevel(logging.WARNING)

    def details():
        raise AssertionError

    log.write(Call("request-1", 1e9), "native", "schedule", 0.0, details)


def test_the_stages_of_a_decision_are_logged_at_debug(caplog):
    caplog.set_level(logging.DEBUG, "decisions")
    services = services_of(log=logging.getLogger("decisions"))
    route_of("/v1/schedule", "POST").handler(
        services, Call("request-1", 1e9, json.dumps(examples.SCHEDULE_OWN_FLEET).encode())
    )
    [stages] = [each for each in caplog.records if each.getMessage() == "stages"]
    assert stages.fields.keys() == {"decode_ms", "decide_ms", "encode_ms", "request_id"}


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> str:
    url = sqlite_url(tmp_path_factory.mktemp("ledger"))
    filled(url, segments=1, decisions=12)
    return url


def get(ledger: LedgerReader | None, path: str, path_values: dict[str, str] | None = None, **query: str):
    route = route_of(path)
    assert query.keys() <= route.query.keys()
    return asked(services_of(state=None, ledger=ledger), route, values=path_values, **query)


def test_pages_hold_every_record_once(url):
    ledger, ids, more = LedgerReader(url), [], {}
    while more is not None:
        page = get(ledger, "/v1/history", limit="5", **more)
        ids += [each["id"] for each in page["items"]]
        more = {"after": page["next"]} if page["next"] else None
    assert ids == [f"1.{number}" for number in range(17, -1, -1)]


def test_parameters_select_records(url):
    found = get(LedgerReader(url), "/v1/history", namespace="shop", kind="deployment", name="w0-3", limit="1")
    assert [(each["resourceKind"], each["name"]) for each in found["items"]] == [("Deployment", "w0-3")]
    none = get(LedgerReader(url), "/v1/history", until="2025-01-01T00:00:00Z")
    assert none == {"items": [], "next": None}


def test_the_decisions_on_a_binding(url):
    path = "/v1/bindings/{namespace}/{name}/decisions"
    found = get(LedgerReader(url), path, {"namespace": "shop", "name": "w0-3-deployment"})
    assert [each["after"] for each in found["items"]] == [{"m2": 11}, {"m3": 4}] or len(found["items"]) == 2
    path = "/v1/clusterbindings/{name}/decisions"
    assert get(LedgerReader(url), path, {"name": "w0-3-deployment"})["items"] == []


def test_a_ledger_that_cannot_be_read_is_unavailable_and_read_again_later(url, tmp_path: Path):
    path = tmp_path / "ledger.db"
    path.write_bytes(Path(url.removeprefix("sqlite:///")).read_bytes())
    ledger = LedgerReader(f"sqlite:///{path}")
    assert get(ledger, "/v1/history")["items"]
    content = path.read_bytes()
    path.unlink()
    with refusing(503):
        get(ledger, "/v1/history")
    path.write_bytes(content)
    assert get(ledger, "/v1/history")["items"]


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"after": "9.9"}, "no record 9.9"),
        ({"after": "x"}, "is not the id of a record"),
    ],
)
def test_an_invalid_parameter_is_refused(url, query, problem):
    with pytest.raises((Refusal, InputError), match=problem):
        get(LedgerReader(url), "/v1/history", **query)


def test_without_a_ledger_the_answer_says_what_is_missing():
    with pytest.raises(Refusal, match="start it with --ledger"):
        get(None, "/v1/history")


RECORDED = "/v1/bindings/{namespace}/{name}/decisions/{record}"
WHY_NOT = "/v1/bindings/{namespace}/{name}/why-not"


def a_decision(ledger: LedgerReader) -> tuple[str, dict[str, str]]:
    """Return the id of a decision, and the path values of its binding."""
    items = get(ledger, "/v1/history", kind="Deployment", limit="50")["items"]
    found = next(each for each in items if each["kind"] == "decision" and each["after"])
    return found["id"], {"namespace": found["namespace"], "name": f"{found['name']}-deployment"}


def test_a_recorded_decision_is_explained_as_it_was(url):
    ledger = LedgerReader(url)
    record, binding = a_decision(ledger)
    found = get(ledger, RECORDED, {**binding, "record": record})
    assert found["record"]["id"] == record
    assert found["reproduced"]
    assert found["explanation"]["clusters"] == found["record"]["after"]
    taken = next(iter(found["record"]["after"]))
    assert get(ledger, WHY_NOT, binding, cluster=taken, record=record)["taken"]


@cases(
    ("path", "changed", "query", "status", "problem"),
    {
        "another binding": (RECORDED, {"name": "other-deployment"}, {}, 404, "another binding$"),
        "an unknown record": (RECORDED, {"record": "1.999"}, {}, 404, "has no"),
        "no id": (RECORDED, {"record": "last"}, {}, 404, "not the id of a record"),
        "why-not": (WHY_NOT, {"name": "other-deployment"}, {"cluster": "m1"}, 404, "another binding$"),
        "why-not, no such cluster": (WHY_NOT, {}, {"cluster": "nowhere"}, 409, "no cluster 'nowhere'"),
    },
)
def test_a_question_about_a_record_that_has_no_answer_is_refused(url, path, changed, query, status, problem):
    ledger = LedgerReader(url)
    record, binding = a_decision(ledger)
    values = {**binding, "record": record, **changed}
    asked = {**query, "record": values.pop("record")} if path == WHY_NOT else {}
    with refusing(status, problem):
        get(ledger, path, values, **asked)
