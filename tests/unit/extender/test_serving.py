"""What a worker does besides answering."""

import logging
import threading

from fake_clock import FakeClock
from waiting import LIMIT_S

from berthmaster.scheduling.karmada.profile import karmada_profile
from extender import serving
from extender.protocols.native import Planner
from extender.protocols.services import Services
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
