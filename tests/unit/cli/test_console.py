"""`berthmaster console`: its threads and its open pages fit together."""

import pytest
from click.testing import CliRunner

from berthmaster_cli.console import command
from console import serving


@pytest.mark.parametrize(
    ("words", "streams"),
    [
        pytest.param((), 60, id="the default"),
        pytest.param(("--threads=64",), 28, id="fewer threads have fewer streams"),
        pytest.param(("--threads=2",), 1, id="one stream is always possible"),
        pytest.param(("--threads=64", "--max-streams=20"), 20, id="a given number"),
        pytest.param(("--threads=64", "--max-streams=60"), None, id="a given number that does not fit is refused"),
    ],
)
def test_streams_fit_the_threads(monkeypatch, words, streams):
    served = []
    monkeypatch.setattr(serving, "serve", served.append)
    result = CliRunner().invoke(command, ["--extender-url=http://127.0.0.1:9443", *words])
    assert [each.streams for each in served] == ([] if streams is None else [streams])
    assert result.exit_code == (2 if streams is None else 0), result.output
