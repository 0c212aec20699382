"""What a worker does besides answering."""

import threading

from waiting import LIMIT_S

from extender import serving
from extender.serving import ExtenderOptions


def test_a_worker_that_could_not_report_its_state_reports_it_later(monkeypatch, caplog):
    monkeypatch.setattr(serving, "_HOUSEKEEPING_S", 0.01)
    reports, again = [], threading.Event()

    class Extender(serving._Extender):
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
