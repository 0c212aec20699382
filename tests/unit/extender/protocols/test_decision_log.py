"""The log of decisions: one line each, up to a rate."""

import json
import logging

import pytest
from fake_clock import FakeClock
from fake_metrics import FakeMetrics
from kube_scheduler_builders import Service, group, node, pod, with_names

from berthmaster.scheduling.karmada.profile import karmada_profile
from extender.protocols import kube_scheduler, kubeadmiral, native
from extender.protocols.native import examples
from extender.protocols.services import Call, DecisionLog, Services
from extender.state.state import State

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
    services = Services(Service(FLEET).state, FakeMetrics(), logging.getLogger("decisions"), FakeClock())
    [route] = [
        each for each in (*native.routes(), *kubeadmiral.routes(), *kube_scheduler.routes()) if each.path == path
    ]
    route.handler(services, Call("request-1", 1e9, body if isinstance(body, bytes) else json.dumps(body).encode()))
    [record] = [each for each in caplog.records if each.getMessage() == "decision"]
    assert record.fields.pop("request_id") == "request-1"
    assert record.fields.pop("duration_ms") >= 0
    return record.fields


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        pytest.param(
            "/v1/schedule",
            examples.SCHEDULE_OWN_FLEET,
            {"workload": "shop/web-deployment", "result": "Placed", "group": "private", "assignment": REPLICAS},
            id="native schedule",
        ),
        pytest.param(
            "/kubeadmiral/v1alpha1/filter",
            {"schedulingUnit": UNIT, "cluster": MEMBER},
            {"workload": "Deployment shop/web", "result": "passed", "group": "eu", "cluster": "eu-1"},
            id="KubeAdmiral filter",
        ),
        pytest.param(
            "/kubeadmiral/v1alpha1/select",
            {"schedulingUnit": UNIT, "clusterScores": [{"cluster": MEMBER, "score": 1}]},
            {"workload": "Deployment shop/web", "result": "selected", "group": "eu", "clusters": ["eu-1"]},
            id="KubeAdmiral select",
        ),
        pytest.param(
            "/kubeadmiral/v1alpha1/select",
            {"schedulingUnit": UNIT, "clusterScores": []},
            {"result": "failed", "error": "no group can hold the workload: eu: none of its clusters is left"},
            id="KubeAdmiral select without a cluster",
        ),
        pytest.param(
            "/kube-scheduler/filter",
            with_names(pod(GOLD, SILVER), ["g1", "s1"]),
            {"workload": "shop/web-1", "result": "placed", "group": "primary", "nodes": 1, "rejected": 1},
            id="kube-scheduler filter",
        ),
        pytest.param(
            "/kube-scheduler/prioritize",
            with_names(pod(GOLD, SILVER), ["g1", "s1"]),
            {"workload": "shop/web-1", "scores": {"g1": 10, "s1": 5}},
            id="kube-scheduler prioritize",
        ),
        pytest.param(
            "/kube-scheduler/preempt",
            {"Pod": pod(GOLD), "NodeNameToMetaVictims": {"g1": {"Pods": [{"UID": "u"}]}}},
            {"workload": "shop/web-1", "result": "allowed", "nodes": ["g1"]},
            id="kube-scheduler preempt",
        ),
    ],
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
    services = Services(State(karmada_profile()), FakeMetrics(), logging.getLogger("decisions"), FakeClock())
    [route] = [each for each in native.routes() if each.path == "/v1/schedule"]
    route.handler(services, Call("request-1", 1e9, json.dumps(examples.SCHEDULE_OWN_FLEET).encode()))
    [stages] = [each for each in caplog.records if each.getMessage() == "stages"]
    assert stages.fields.keys() == {"decode_ms", "decide_ms", "encode_ms", "request_id"}
