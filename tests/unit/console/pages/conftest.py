"""One console for all tests of pages: templates are compiled once."""

import pytest
from console_source import GivenSource, console_client


@pytest.fixture(scope="session")
def _console():
    source = GivenSource()
    return console_client(source), source


@pytest.fixture
def page(_console):
    """Return a function: the answer to an address, and the source that it asked, which answers what is given."""
    client, source = _console

    def answer(address, **given):
        source.answers, source.asked = given, []
        return client.get(address), source

    return answer
