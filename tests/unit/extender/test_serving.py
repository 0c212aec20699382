"""The extender's server."""

import logging
import threading

import pytest
from extender_services import refusing
from fake_clock import FakeClock
from fake_metrics import FakeMetrics
from tables import cases
from waiting import LIMIT_S

from berthmaster.runtime.clock import SystemClock
from berthmaster.scheduling.karmada.profile import karmada_profile
from extender import serving
from extender.app import all_routes
from extender.protocols.native import Planner
from extender.protocols.problem import Refusal
from extender.protocols.request_size import MAX_QUESTION_BYTES, MAX_QUESTION_VALUES, MAX_VALUES, sized, values_of
from extender.protocols.services import Call, Services
from extender.serving import ExtenderOptions
from extender.state.state import State


def test_a_worker_that_could_not_report_its_state_reports_it_later(monkeypatch, caplog):
    monkeypatch.setattr(serving, "_HOUSEKEEPING_S", 0.01)
    reports, again = [], threading.Event()

    class Extender(serving._Extender):  # noqa: SLF001 - the part of a worker without gunicorn
        def _report(self, _report):
            reports.append("a report")
            if len(reports) == 2:
                raise OSError("no space left on device")
            if len(reports) == 4:
                again.set()
                threading.Event().wait()  # the test is over

    Extender(ExtenderOptions(server=None)).started(lambda _readiness: None)
    assert again.wait(LIMIT_S)
    assert "no space left on device" in caplog.text


def test_a_worker_prepares_the_index_of_workloads_also_if_no_plan_can_be_prepared(monkeypatch, caplog):
    monkeypatch.setattr(serving, "_HOUSEKEEPING_S", 0.01)
    calls, both = [], threading.Event()

    class PreparedState(State):
        def prepare(self):
            calls.append("workloads")
            raise OSError("an unexpected error")

    class PreparedPlanner(Planner):
        def prepare(self, _services):
            if calls == ["workloads"]:
                both.set()
            threading.Event().wait()  # the test is over

    extender = serving._Extender(ExtenderOptions(server=None))  # noqa: SLF001 - the part of a worker without gunicorn
    services = Services(PreparedState(karmada_profile()), None, logging.getLogger("test"), FakeClock())
    extender._keep_prepared(PreparedPlanner(), services)  # noqa: SLF001 - the part of a worker without gunicorn
    assert both.wait(LIMIT_S)
    assert "the index of workloads could not be prepared" in caplog.text


def services(clock=None):
    return Services(State(karmada_profile()), FakeMetrics(), logging.getLogger("test"), clock or FakeClock())


def entered(body, *, brings_fleet, decodes_parts=False):
    call = Call("1", 2000.0, body)
    with sized(services(), call, body, brings_fleet=brings_fleet, decodes_parts=decodes_parts):
        pass


@cases(
    ("body", "values"),
    {
        "a number": (b"1", 1),
        "nested values": (b'{"a":[1,2,{}]}', 6),
        "a list of texts": (b'{"namespaces":["0","1"]}', 4),
    },
)
def test_values_are_counted(body, values):
    assert values_of(body) == values


@cases(("brings_fleet", "most"), {"with a fleet": (True, MAX_VALUES), "a question": (False, MAX_QUESTION_VALUES)})
def test_a_request_with_too_many_values_is_refused(brings_fleet, most):
    entered(b"[" + b"1," * (most - 2), brings_fleet=brings_fleet)
    with refusing(413, f"JSON values; at most {most:,} are read"):
        entered(b"[" + b"1," * most, brings_fleet=brings_fleet)


def test_only_the_bytes_of_a_body_count_that_is_not_decoded_as_a_whole():
    entered(b"[" + b"1," * MAX_VALUES, brings_fleet=True, decodes_parts=True)


def test_a_question_has_few_bytes():
    body = b'"' + b"x" * MAX_QUESTION_BYTES + b'"'
    entered(body, brings_fleet=True)
    with pytest.raises(Refusal, match="bytes; at most 3145728 are read"):
        entered(body, brings_fleet=False)


def test_large_requests_wait_for_each_other_and_small_ones_for_none():
    shared, inside, leave = services(SystemClock()), threading.Event(), threading.Event()
    large, now_s = b"[" + b"1," * 60_000, shared.clock.monotonic_s()

    def hold():
        with sized(shared, Call("1", now_s + 60), large, brings_fleet=True):
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(60)
    with (
        pytest.raises(Refusal, match="other large requests took all the time") as refused,
        sized(shared, Call("2", now_s), large, brings_fleet=True),
    ):
        pass
    assert refused.value.status == 503
    with sized(shared, Call("3", now_s), b"{}", brings_fleet=True):
        pass
    leave.set()
    thread.join(60)
    with sized(shared, Call("4", shared.clock.monotonic_s() + 60), large, brings_fleet=True):
        pass


def test_only_requests_with_a_fleet_of_their_own_may_be_large():
    native = {route.path for route in all_routes() if route.path.startswith("/v1/") and route.brings_fleet}
    assert native == {"/v1/schedule"}
    others = [route for route in all_routes() if not route.path.startswith("/v1/") and route.method == "POST"]
    assert all(route.brings_fleet for route in others)
