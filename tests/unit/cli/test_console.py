"""`berthmaster console`: its threads and its open pages fit together."""

from click.testing import CliRunner
from tables import cases

from berthmaster_cli.console import command
from console import serving


@cases(
    ("words", "streams"),
    {
        "the default": ((), 60),
        "fewer threads have fewer streams": (("--threads=64",), 28),
        "one stream is always possible": (("--threads=2",), 1),
        "a given number": (("--threads=64", "--max-streams=20"), 20),
        "a given number that does not fit is refused": (("--threads=64", "--max-streams=60"), None),
    },
)
def test_streams_fit_the_threads(monkeypatch, words, streams):
    served = []
    monkeypatch.setattr(serving, "serve", served.append)
    result = CliRunner().invoke(command, ["--extender-url=http://127.0.0.1:9443", *words])
    assert [each.app.streams for each in served] == ([] if streams is None else [streams])
    assert result.exit_code == (2 if streams is None else 0), result.output
