import pytest
from webhook_process import running


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A webhook that tests may share: two workers, a small body limit, short deadlines."""
    options = ("--workers=2", "--threads=4", "--max-body-bytes=65536", "--request-timeout-s=0.7", "--drain-s=0")
    with running(tmp_path_factory.mktemp("webhook"), *options) as shared:
        yield shared


@pytest.fixture
def connection(server):
    opened = server.connection()
    yield opened
    opened.close()
