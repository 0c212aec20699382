import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from berthmaster.serving.probes import Probes, ProbeServer, Readiness


class State:
    readiness = Readiness()
    dead = ""


@pytest.fixture
def state() -> State:
    return State()


@pytest.fixture
def url(state) -> Iterator[str]:
    probes = Probes(lambda: state.readiness, lambda: ("text/plain", b"metric 1\n"), lambda: state.dead)
    server = ProbeServer("127.0.0.1", 0, probes)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - a server of this test
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize(
    ("readiness", "dead", "path", "answer"),
    [
        pytest.param(Readiness(), "", "livez", (200, "ok\n"), id="alive"),
        pytest.param(Readiness(), "stuck", "livez", (503, "stuck\n"), id="not alive"),
        pytest.param(Readiness("x"), "", "livez", (200, "ok\n"), id="alive but not ready"),
        pytest.param(Readiness(), "", "readyz", (200, "ok\n"), id="ready"),
        pytest.param(Readiness("", "stale"), "", "readyz/", (200, "ok\nstale\n"), id="ready, with a note"),
        pytest.param(Readiness("not synced"), "", "readyz?verbose", (503, "not synced\n"), id="not ready"),
        pytest.param(Readiness(), "", "metrics", (200, "metric 1\n"), id="metrics"),
        pytest.param(
            Readiness(), "", "other", (404, "the paths are /livez, /readyz and /metrics\n"), id="an unknown path"
        ),
    ],
)
def test_answers(state, url, readiness, dead, path, answer):
    state.readiness, state.dead = readiness, dead
    assert get(f"{url}/{path}") == answer
