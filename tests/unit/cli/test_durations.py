"""Times are seconds or durations, by a name with or without the unit."""

import click
import pytest
from click.testing import CliRunner
from tables import cases

from berthmaster_cli.durations import DurationRange, seconds_of
from berthmaster_cli.flags import Flags, option, options


@cases(
    ("text", "seconds"),
    {
        "minutes": ("5m", 300),
        "parts": ("1h30m", 5400),
        "milliseconds": ("500ms", 0.5),
        "a fraction": ("1.5h", 5400),
        "days": ("2d", 172_800),
        "no unit": ("5", None),
        "another unit": ("5y", None),
        "nothing": ("", None),
        "a sign": ("-5m", None),
    },
)
def test_the_seconds_of_a_duration(text, seconds):
    assert seconds_of(text) == seconds


class TimedFlags(Flags):
    wait_s: float = option("How long.", 1.0, click.FloatRange(0.5, 600))
    idle_s: int = option("How long.", 1, click.IntRange(1, 600))


@click.command
@options(TimedFlags)
def timed(flags: TimedFlags) -> None:
    click.echo(f"{flags.wait_s!r} {flags.idle_s!r}")


@pytest.mark.parametrize("words", [["--wait", "90s"], ["--wait-s", "90"], ["--wait", "1.5m"], ["--wait=90"]])
def test_both_names_take_seconds_and_durations(words):
    assert CliRunner().invoke(timed, words).output == "90.0 1\n"


@cases(
    ("words", "problem"),
    {
        "too long": (["--wait", "11m"], "is not in the range"),
        "no time": (["--wait", "soon"], "'soon' is no time; accepted are seconds such as 90, and durations such as"),
        "not a number": (["--wait", "nan"], "'nan' is no time"),
        "no whole number": (["--idle", "1500ms"], "is no whole number of seconds"),
    },
)
def test_another_value_is_refused(words, problem):
    found = CliRunner().invoke(timed, words)
    assert (found.exit_code, problem in found.output) == (2, True), found.output


def test_a_whole_number_of_seconds_stays_one():
    assert DurationRange(click.IntRange(1, 600)).convert("2m", None, None) == 120
