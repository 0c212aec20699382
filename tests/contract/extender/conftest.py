"""Services that the contract tests talk to, each started once."""

import pytest
from conftest import ROOT
from servers import Server, running

EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="session")
def server(tmp_path_factory) -> Server:
    """The extender on the example fleet, with narrow bounds."""
    log = tmp_path_factory.mktemp("extender") / "log"
    flags = (
        "-f", EXAMPLES / "clusters.yaml", "-f", EXAMPLES / "groups", "--workers", 1, "--threads", 4,
        "--max-body-bytes", 65536, "--max-line-bytes", 16384, "--max-batch-lines", 1000, "--request-timeout-s", 1,
    )  # fmt: skip
    with running("extender", *flags, log=log) as started:
        yield started
        assert "Traceback" not in log.read_text(), log.read_text()
