import pytest
from fake_clock import FakeClock

from berthmaster.serving.probes import METRICS_KEPT_S, ProbeResponder, Probes, Readiness


class Service:
    """A service with a state that a test sets. It counts how often its metrics are rendered."""

    def __init__(self):
        self.state = Readiness()
        self.reason = ""
        self.rendered = 0

    def readiness(self) -> Readiness:
        return self.state

    def dead(self) -> str:
        return self.reason

    def metrics(self) -> tuple[str, bytes]:
        self.rendered += 1
        return "text/plain", f"metric {self.rendered}\n".encode()

    @property
    def probes(self) -> Probes:
        return Probes(self.readiness, self.metrics, self.dead)


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def responder(service, clock) -> ProbeResponder:
    return ProbeResponder(service.probes, clock)


def ask(responder: ProbeResponder, head: str) -> tuple[int, str]:
    head, body = responder.answer(head.encode())
    assert f"Content-Length: {len(body)}\r\n".encode() in head
    assert head.endswith(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def get(responder: ProbeResponder, path: str) -> tuple[int, str]:
    return ask(responder, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")


@pytest.mark.parametrize(
    ("readiness", "dead", "path", "answer"),
    [
        pytest.param(Readiness(), "", "/livez", (200, "ok\n"), id="alive"),
        pytest.param(Readiness(), "stuck", "/livez", (503, "stuck\n"), id="not alive"),
        pytest.param(Readiness("x"), "", "/livez", (200, "ok\n"), id="alive but not ready"),
        pytest.param(Readiness(), "", "/readyz", (200, "ok\n"), id="ready"),
        pytest.param(Readiness("", "stale"), "", "/readyz/", (200, "ok\nstale\n"), id="ready, with a note"),
        pytest.param(Readiness("not synced"), "", "/readyz?verbose", (503, "not synced\n"), id="not ready"),
        pytest.param(Readiness("\udcff"), "", "/readyz", (503, "?\n"), id="a reason that is not valid UTF-8"),
        pytest.param(Readiness(), "", "/metrics", (200, "metric 1\n"), id="metrics"),
        pytest.param(
            Readiness(), "", "/other", (404, "the paths are /livez, /readyz and /metrics\n"), id="an unknown path"
        ),
    ],
)
def test_answers(responder, service, readiness, dead, path, answer):
    service.state, service.reason = readiness, dead
    assert get(responder, path) == answer


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param("GET /livez HTTP/1.0\n\n", 200, id="HTTP/1.0 with bare newlines"),
        pytest.param("GET /livez\r\n\r\n", 400, id="no version"),
        pytest.param("\r\n\r\n", 400, id="an empty request line"),
        pytest.param("\x16\x03\x01\x02\n\n", 400, id="TLS"),
        pytest.param("PRI * HTTP/2.0\r\n\r\n", 400, id="HTTP/2"),
        pytest.param("POST /livez HTTP/1.1\r\n\r\n", 405, id="another method"),
    ],
)
def test_requests_that_are_not_a_plain_get(responder, head, status):
    assert ask(responder, head)[0] == status


def test_head_has_no_body(responder):
    head, body = responder.answer(b"HEAD /readyz HTTP/1.1\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 3\r\n" in head
    assert not body


def test_metrics_are_rendered_at_most_once_a_second(responder, service, clock):
    for _ in range(100):
        assert get(responder, "/metrics") == (200, "metric 1\n")
        clock.pass_by(METRICS_KEPT_S / 101)
    clock.pass_by(METRICS_KEPT_S / 50)
    assert get(responder, "/metrics") == (200, "metric 2\n")
    assert service.rendered == 2


def test_a_crash_is_logged_and_other_probes_are_answered(responder, service, monkeypatch, caplog):
    monkeypatch.setattr(service, "state", None)
    assert get(responder, "/readyz") == (500, "an internal error; the log has the reason\n")
    assert caplog.records[0].exc_info is not None
    assert get(responder, "/livez") == (200, "ok\n")
