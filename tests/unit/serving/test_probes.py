import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from berthmaster.serving.probes import Health, Probes, ProbeServer


class State:
    health = Health()
    dead = ""


@pytest.fixture
def state() -> State:
    return State()


@pytest.fixture
def url(state) -> Iterator[str]:
    probes = Probes(lambda: state.health, lambda: ("text/plain", b"metric 1\n"), lambda: state.dead)
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
    ("health", "dead", "path", "answer"),
    [
        pytest.param(Health(), "", "livez", (200, "ok\n"), id="alive"),
        pytest.param(Health(), "stuck", "livez", (503, "stuck\n"), id="not alive"),
        pytest.param(Health("x"), "", "livez", (200, "ok\n"), id="alive though not ready"),
        pytest.param(Health(), "", "readyz", (200, "ok\n"), id="ready"),
        pytest.param(Health("", "stale"), "", "readyz/", (200, "ok\nstale\n"), id="ready, with a note"),
        pytest.param(Health("not synced"), "", "readyz?verbose", (503, "not synced\n"), id="not ready"),
        pytest.param(Health(), "", "metrics", (200, "metric 1\n"), id="metrics"),
        pytest.param(Health(), "", "other", (404, "there are /livez, /readyz and /metrics\n"), id="no such path"),
    ],
)
def test_answers(state, url, health, dead, path, answer):
    state.health, state.dead = health, dead
    assert get(f"{url}/{path}") == answer
