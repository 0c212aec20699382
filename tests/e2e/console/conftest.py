"""Fixtures of the console's tests in a browser."""

from collections.abc import Iterator

import pytest
from e2e.conftest import needed
from e2e.console.chromium import ARGUMENTS, chromium, scripts
from e2e.console.services import Console
from e2e.console.visits import NARROW, Visits, start_visits
from e2e.processes import Processes
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="session")
def axe() -> str:
    return needed(scripts)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = needed(chromium)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def console(browser: Browser, processes: Processes) -> Iterator[Console]:
    """A console of a fleet in use, shared by all tests. A test that changes an object uses an object of its own."""
    assert browser.is_connected()  # without a browser nothing is started
    console = Console(processes, processes.folder)
    yield console
    console.close()


@pytest.fixture
def visit(browser: Browser, console: Console, axe: str) -> Iterator[Visits]:
    """Visits with a new session: ``visit("/fleet")`` returns the page. The end of the test checks all pages."""
    with start_visits(browser, console.url, axe) as visits:
        yield visits


@pytest.fixture
def narrow(browser: Browser, console: Console, axe: str) -> Iterator[Visits]:
    with start_visits(browser, console.url, axe, NARROW) as visits:
        yield visits
