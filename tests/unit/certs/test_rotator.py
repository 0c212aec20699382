"""The loop of the rotator: retries, health and stop."""

import threading

import pytest
from certified import Installation
from faults import nothing
from waiting import wait_for

from berthmaster.model.errors import ApiError
from certs.rotator import CertificateMetrics, CertificateRotator

WAIT_S = 10.0


class Running:
    """A rotator in a thread."""

    def __init__(self, installation, interval_s=0.01):
        self.metrics = CertificateMetrics()
        self.rotator = CertificateRotator(installation.replica(), installation.options, self.metrics, interval_s)
        self._thread = threading.Thread(target=self.rotator.run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.rotator.stop()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def wait_for(self, check):
        wait_for(lambda: check(self.rotator.health()), self.rotator.health)


def test_ready_after_the_first_reconciliation():
    installation = Installation()
    running = Running(installation)
    assert running.rotator.health().problem
    with running:
        running.wait_for(lambda health: health == ("", ""))
        assert installation.leaf().certificate is not None
        assert b"last_success_timestamp_seconds 0.0" not in running.metrics.exposition()[1]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ApiError(503, "Unavailable", "away"), id="the API server is unavailable"),
        pytest.param(RuntimeError("unexpected"), id="an unexpected exception"),
    ],
)
def test_a_failure_is_reported_and_retried(error, caplog):
    installation = Installation()

    def refuse(_request):
        raise error

    installation.cluster.before = refuse
    with Running(installation) as running:
        running.wait_for(lambda health: str(error) in health.problem)
        installation.cluster.before = nothing
        running.wait_for(lambda health: health == ("", ""))
        installation.cluster.before = refuse
        running.wait_for(lambda health: not health.problem and str(error) in health.note)
    assert str(error) in caplog.text


def test_stop_ends_the_wait():
    with Running(Installation(), interval_s=3600) as running:
        running.wait_for(lambda health: not health.problem)
