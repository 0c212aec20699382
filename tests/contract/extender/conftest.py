"""The service that the contract tests share. Tests that depend on the worker class are marked ``BOTH_CLASSES``."""

import pytest
from conftest import ROOT
from servers import Server, running

EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="session", params=["fast"])
def server(request, tmp_path_factory) -> Server:
    """The extender with the example fleet and low limits."""
    log = tmp_path_factory.mktemp("extender") / "log"
    flags = (
        "-f", EXAMPLES / "clusters.yaml", "-f", EXAMPLES / "groups", "--workers", 1, "--threads", 4,
        "--max-body-bytes", 65536, "--max-line-bytes", 16384, "--max-batch-lines", 1000, "--request-timeout-s", 1,
        "--worker-class", request.param,
    )  # fmt: skip
    with running("extender", *flags, log=log) as started:
        yield started
        assert "Traceback" not in log.read_text(), log.read_text()
