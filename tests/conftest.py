"""What all tests share."""

import gc
import os
import ssl
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from fake_clock import FakeClock
from http_peer import OK, HttpPeer
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# No test may reach the cluster of the developer who runs it. Tests name their kubeconfig files.
os.environ["KUBECONFIG"] = str(ROOT / "tests" / "no-kubeconfig")

# The result of a run depends only on the code, so the examples of a property are the same in each run. A search for
# new examples is a run of its own: `make bench-...`, or `make test ARGS=--hypothesis-profile=random`.
#
# A slow machine is no failure, nor is a draw of many worlds that a property says nothing about: if all were such, it
# would still fail.
settings.register_profile(
    "random",
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.register_profile("berthmaster", settings.get_profile("random"), derandomize=True)
SEARCHES = {"BERTHMASTER_EXAMPLES", "BERTHMASTER_FUZZ", "LEDGER_HISTORIES", "MOVE_HISTORIES"}
"""The variables with which make targets raise the number of examples."""
settings.load_profile("random" if SEARCHES & set(os.environ) else "berthmaster")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from what stays until the end: modules and collected tests, millions of objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what is printed today to tests/golden")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def peer() -> Iterator[Callable[..., HttpPeer]]:
    """Return a function that starts a server with scripted responses."""
    started: list[HttpPeer] = []

    def start(*responses: bytes, tls: ssl.SSLContext | None = None) -> HttpPeer:
        started.append(HttpPeer(responses or (OK,), tls))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def golden(request: pytest.FixtureRequest):

    def compare(name: str, text: str) -> None:
        path = ROOT / "tests" / "golden" / name
        if request.config.getoption("--update-golden"):
            path.write_text(text)
        assert text == path.read_text(), f"differs from {path}; if that is right, run pytest --update-golden"

    return compare
