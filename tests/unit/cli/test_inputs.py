"""What an extender does not know goes to standard error, so that the output stays that of the command."""

from datetime import UTC, datetime

import pytest

from berthmaster.native_api.wire import Staleness
from berthmaster_cli.inputs import report_gaps

SINCE = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("staleness", "lines"),
    [
        pytest.param(None, ["no templates"], id="a service that does not say how current it is"),
        pytest.param(Staleness(SINCE, None, ""), ["no templates"], id="current"),
        pytest.param(
            Staleness(SINCE, SINCE, "lost"),
            ["no templates", "the extender is stale since 2026-01-01T00:00:00+00:00: lost"],
            id="stale",
        ),
    ],
)
def test_gaps_and_staleness_are_reported(capsys, staleness, lines):
    report_gaps(["no templates"], staleness)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [f"berthmaster: {line}" for line in lines]
