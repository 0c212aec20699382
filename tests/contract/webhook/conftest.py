"""The webhook that the contract tests share."""

import pytest
from webhook_process import running


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A webhook with two workers, a small body limit and deadlines that only a client that waits exceeds."""
    options = ("--workers=2", "--threads=4", "--max-body-bytes=65536", "--request-timeout-s=2.5", "--drain-s=0")
    with running(tmp_path_factory.mktemp("webhook"), *options) as shared:
        yield shared


@pytest.fixture
def connection(server):
    opened = server.connection()
    yield opened
    opened.close()
