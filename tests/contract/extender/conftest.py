"""The service that the contract tests share."""

from collections.abc import Iterator

import pytest
from conftest import ROOT
from servers import Server, running

EXAMPLES = ROOT / "examples" / "karmada"


@pytest.fixture(scope="session")
def server(tmp_path_factory) -> Iterator[Server]:
    """The extender with the example fleet, low limits, and a deadline that no machine is too slow for."""
    yield from _started(tmp_path_factory, "--request-timeout-s", 120)


@pytest.fixture(scope="session")
def hasty(tmp_path_factory) -> Iterator[Server]:
    """The same with a short deadline, for tests of clients that send no complete request."""
    yield from _started(tmp_path_factory, "--request-timeout-s", 1)


def _started(tmp_path_factory: pytest.TempPathFactory, *more: object) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("extender") / "log"
    flags = (
        "-f", EXAMPLES / "clusters.yaml", "-f", EXAMPLES / "groups", "--workers", 1, "--threads", 4,
        "--max-body-bytes", 65536, *more,
    )  # fmt: skip
    with running("extender", *flags, log=log) as started:
        yield started
        assert "Traceback" not in log.read_text(), log.read_text()
