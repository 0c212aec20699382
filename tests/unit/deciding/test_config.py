"""The configuration of moves: selectors, rules, annotations and windows."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
import pytest
from msgspec import structs
from tables import cases

from berthmaster.deciding.config import MoveRule, MovesConfig
from berthmaster.deciding.lease_record import SourcesRecord
from berthmaster.deciding.move_selector import MoveSelector, MoveSubject, subject_of
from berthmaster.deciding.move_settings import (
    MOVE_SOURCES,
    NO_SOURCE,
    MoveOverrides,
    MoveSettings,
    SourceOverride,
    SourceSettings,
    failback_annotation,
)
from berthmaster.deciding.pause import pause_annotation
from berthmaster.deciding.windows import Schedule, TimeZone, Window, Windows, WindowSeconds
from berthmaster.model.binding import Binding
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.move import MoveReason, MoveStrategy
from berthmaster.model.selector import LabelSelector

ON = SourceSettings("On")
REQUESTED = {MoveReason.FAILOVER, MoveReason.RESCHEDULED}
"""The reasons that are no source of moves: a loss, and a request."""


def test_each_source_of_moves_has_a_reason_settings_and_a_record():
    assert {each.value.lower() for each in {*MoveReason} - REQUESTED} == {*MOVE_SOURCES}
    groups = [name for name, value in asdict(MoveSettings()).items() if isinstance(value, dict)]
    overrides = [name for name, value in structs.asdict(MoveOverrides()).items() if hasattr(value, "mode")]
    assert groups == overrides == [*MOVE_SOURCES]
    assert {*MOVE_SOURCES} < {*SourcesRecord.__struct_fields__}


def test_a_configuration_turns_all_sources_off():
    settings = NO_SOURCE.applied(MoveSettings(failback=ON, drain=ON))
    assert {getattr(settings, name).mode for name in MOVE_SOURCES} == {"Off"}


def rule(selector, **settings):
    return MoveRule(selector=selector, **settings)


@cases(
    ("selector", "matches"),
    {
        "an empty selector": (MoveSelector(), True),
        "its namespace": (MoveSelector(namespaces={"a", "shop"}), True),
        "another namespace": (MoveSelector(namespaces={"a"}), False),
        "its policy": (MoveSelector(policies={"shop/web"}), True),
        "a cluster policy of the same name": (MoveSelector(policies={"web"}), False),
        "its kind": (MoveSelector(kinds={"Deployment"}), True),
        "its label": (MoveSelector(labels=LabelSelector({"tier": "1"})), True),
        "another label": (MoveSelector(labels=LabelSelector({"tier": "2"})), False),
        "its namespace but another kind": (MoveSelector({"shop"}, kinds={"Job"}), False),
    },
)
def test_a_selector_matches_if_all_of_its_parts_do(selector, matches):
    subject = MoveSubject("shop", {"tier": "1"}, "shop/web", "Deployment")
    assert selector.matches(subject) is matches


@pytest.mark.parametrize(
    ("annotations", "policy"),
    [
        ({"propagationpolicy.karmada.io/namespace": "shop", "propagationpolicy.karmada.io/name": "web"}, "shop/web"),
        ({"clusterpropagationpolicy.karmada.io/name": "all"}, "all"),
        ({}, ""),
    ],
)
def test_the_subject_of_a_binding_names_its_policy(annotations, policy):
    raw = {
        "metadata": {"name": "web-deployment", "namespace": "shop", "annotations": annotations, "labels": {"a": "b"}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    }
    assert subject_of(msgspec.convert(raw, Binding)) == MoveSubject("shop", {"a": "b"}, policy, "Deployment")


def test_without_a_configuration_nothing_is_planned():
    settings = MovesConfig().settings_for(MoveSubject("shop", {}, "", "Deployment"))
    assert (settings.failback.mode, settings.drain.mode, settings.rebalance.mode) == ("Off", "Off", "Off")


def test_for_each_setting_the_first_rule_that_states_it_applies():
    config = MovesConfig(
        defaults=MoveSettings(failback=ON),
        rules=(
            rule(MoveSelector({"shop"}), soak_s=5),
            rule(MoveSelector({"shop"}), soak_s=9, failback=SourceOverride(mode="DryRun")),
            rule(MoveSelector({"other"}), deadline_s=1),
        ),
    )
    settings = config.settings_for(MoveSubject("shop"))
    assert (settings.soak_s, settings.failback.mode, settings.deadline_s) == (5, "DryRun", 900)


@cases(
    ("rules", "modes"),
    {
        "the defaults": ((), ("Off", "Off")),
        "a wider rule": ((rule(MoveSelector({"shop"}), failback=SourceOverride(mode="On")),), ("Off", "Off")),
        "a rule for Jobs": ((rule(MoveSelector(kinds={"Job"}), failback=SourceOverride(mode="On")),), ("On", "Off")),
    },
)
def test_a_job_moves_by_failback_or_drain_only_if_a_rule_names_its_kind(rules, modes):
    config = MovesConfig(defaults=MoveSettings(failback=ON, drain=ON), rules=rules)
    settings = config.settings_for(MoveSubject("shop", {}, "", "Job"))
    assert (settings.failback.mode, settings.drain.mode) == modes


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [("Deployment", "MakeBeforeBreak"), ("Job", "BreakBeforeMake"), ("CronJob", "BreakBeforeMake")],
)
def test_kinds_that_do_their_work_twice_break_before_they_make(kind, strategy):
    assert MovesConfig().settings_for(MoveSubject("shop", {}, "", kind)).strategy.value == strategy


def test_a_rule_changes_the_strategy_of_such_a_kind():
    config = MovesConfig(rules=(rule(MoveSelector(kinds={"CronJob"}), strategy=MoveStrategy.MAKE_BEFORE_BREAK),))
    assert config.settings_for(MoveSubject("shop", {}, "", "CronJob")).strategy is MoveStrategy.MAKE_BEFORE_BREAK


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", SourceSettings("On", 600, 10)),
        ("true", SourceSettings("On", 600, 10)),
        ("false", SourceSettings("Off", 600, 10)),
        ("after=5m", SourceSettings("On", 300, 10)),
        ("after=5m, headroom=0%, mode=dryrun", SourceSettings("DryRun", 300, 0)),
        ("mode=Off", SourceSettings("Off", 600, 10)),
    ],
)
def test_the_annotation_of_a_policy_turns_failback_on(text, settings):
    assert failback_annotation(text, SourceSettings()) == settings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("yes", "'yes' is not NAME=VALUE; accepted is"),
        ("after=5", "after: '5' is not a duration"),
        ("headroom=10", "headroom: '10' is not a percentage"),
        ("headroom=1001%", "headroom: '1001%' is too large"),
        ("mode=always", "mode: 'always' is not accepted; accepted are Off, DryRun, On"),
        ("soak=5m", "'soak' is unknown"),
    ],
)
def test_an_invalid_annotation_is_an_error_that_names_the_part(text, message):
    with pytest.raises(FieldError) as error:
        failback_annotation(text, SourceSettings())
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "pause"), [("true", "Planned"), ("Planned", "Planned"), ("ALL", "All"), ("false", "None"), ("", "None")]
)
def test_the_annotation_of_a_policy_pauses_its_moves(text, pause):
    assert pause_annotation(text) == pause


def test_an_invalid_pause_is_an_error():
    with pytest.raises(InputError, match="accepted are"):
        pause_annotation("until monday")


HOUR = 3600
BERLIN = "Europe/Berlin"


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def open_minutes(windows, start, hours):
    """Every minute from ``start`` in which the windows are open."""
    moments = [start + timedelta(minutes=each) for each in range(60 * hours)]
    return [moment for moment in moments if windows.opens_at(moment) is None]


@pytest.mark.parametrize(
    ("now", "is_open"),
    [
        ("2026-06-01T21:59:59", False),
        ("2026-06-01T22:00:00", True),
        ("2026-06-02T03:59:59", True),
        ("2026-06-02T04:00:00", False),
    ],
)
def test_a_window_is_open_from_its_start_until_its_duration_is_over(now, is_open):
    assert Window("0 22 * * *", 6 * HOUR).is_open(utc(now)) is is_open


def test_the_schedule_is_in_the_time_zone_of_the_window():
    window = Window("0 22 * * MON-FRI", HOUR, "America/New_York")
    assert window.next_start(utc("2026-06-05T12:00:00")) == utc("2026-06-06T02:00:00")  # Friday 22:00 in New York
    assert window.next_start(utc("2026-06-06T02:00:00")) == utc("2026-06-09T02:00:00")  # Monday


@cases(
    ("schedule", "day", "starts"),
    {
        "a start in the skipped hour happens after it": ("30 2 * * *", "2026-03-29", ["01:00"]),
        "a start in the repeated hour happens once": ("30 2 * * *", "2026-10-25", ["00:30"]),
        "a start after the skipped hour keeps its local time": ("0 4 * * *", "2026-03-29", ["02:00"]),
        "a start after the repeated hour keeps its local time": ("0 4 * * *", "2026-10-25", ["03:00"]),
        "an hourly start has no gap in spring": ("30 * * * *", "2026-03-29", ["00:30", "01:30", "02:30", "03:30"]),
        "an hourly start has no gap in autumn": ("30 * * * *", "2026-10-25", ["00:30", "01:30", "02:30", "03:30"]),
    },
)
def test_starts_on_the_days_when_daylight_saving_time_changes(schedule, day, starts):
    window, moment, found = Window(schedule, 60, BERLIN), utc(f"{day}T00:00:00"), []
    while (moment := window.next_start(moment)) < utc(f"{day}T04:00:00"):
        found.append(f"{moment:%H:%M}")
    assert found == starts


@pytest.mark.parametrize("day", ["2026-03-28T23:00:00", "2026-10-24T22:00:00", "2026-06-01T22:00:00"])
def test_a_window_lasts_for_its_duration_of_elapsed_time_in_every_night(day):
    windows = Windows([Window("0 1 * * *", 3 * HOUR, BERLIN)])
    found = open_minutes(windows, utc(day), 12)
    assert len(found) == 180
    assert found[-1] - found[0] == timedelta(minutes=179)
    assert found[0].astimezone(ZoneInfo(BERLIN)).hour == 1


def test_a_window_in_the_repeated_hour_is_open_once():
    found = open_minutes(Windows([Window("15 2 * * *", 900, BERLIN)]), utc("2026-10-24T23:00:00"), 6)
    assert [f"{found[0]:%H:%M}", f"{found[-1]:%H:%M}", len(found)] == ["00:15", "00:29", 15]


def test_without_windows_it_is_always_open():
    assert Windows().opens_at(utc("2026-01-01T00:00:00")) is None


def test_several_windows_are_open_while_one_of_them_is():
    windows = Windows([Window("0 8 * * *", HOUR), Window("30 8 * * *", HOUR)])
    assert len(open_minutes(windows, utc("2026-06-01T00:00:00"), 24)) == 90
    assert windows.opens_at(utc("2026-06-01T10:00:00")) == utc("2026-06-02T08:00:00")


def test_windows_that_overlap_themselves_never_close():
    windows = Windows([Window("0 * * * *", 2 * HOUR)])
    assert len(open_minutes(windows, utc("2026-06-01T00:00:00"), 24)) == 24 * 60


def test_a_clock_that_steps_back_changes_the_answer_at_once():
    windows = Windows([Window("0 8 * * *", HOUR)])
    assert windows.opens_at(utc("2026-06-01T08:30:00")) is None
    assert windows.opens_at(utc("2026-06-01T07:30:00")) == utc("2026-06-01T08:00:00")
    assert windows.opens_at(utc("2026-06-01T08:30:00")) is None
    assert windows.opens_at(utc("2026-06-01T09:00:00")) == utc("2026-06-02T08:00:00")


@pytest.mark.parametrize(
    "schedule",
    ["", "x", "@daily", "* * * *", "* * * * * *", "61 * * * *", "0 0 31 2 *", "0 0 30 FEB *", "5-1 * * * *",
     "*/0 * * * *", "1e9 * * * *", "0 " * 400],
)  # fmt: skip
def test_another_schedule_is_an_error_that_says_what_is_accepted(schedule):
    with pytest.raises(InputError, match=r"is not a schedule|matches no day"):
        Schedule.parse(schedule)


@pytest.mark.parametrize("name", ["", "Mars/Base", "/etc/passwd", "../../etc/passwd", "Europe", "\0"])
def test_another_time_zone_is_an_error_that_says_what_is_accepted(name):
    with pytest.raises(InputError, match="accepted are IANA names"):
        TimeZone.parse(name)


@pytest.mark.parametrize("duration", ["0s", "-1s", "192h"])
def test_another_duration_is_an_error(duration):
    with pytest.raises(InputError, match=r"accepted (is|are)"):
        WindowSeconds.parse(duration)
