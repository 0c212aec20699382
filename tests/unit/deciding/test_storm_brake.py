import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import cases

from berthmaster.deciding.storm_brake import MAX_AGE_S, BrakeSettings, StormBrake

SETTINGS = BrakeSettings(window_s=300, settle_s=120)
START = 100_000.0


def brake(ready, unready=(), **changes):
    """A brake that has begun, with clusters named by numbers: some ready, some that turned unready some time ago."""
    found = StormBrake(BrakeSettings(**{"window_s": 300, "settle_s": 120, **changes}))
    for number in range(ready):
        found.observe(f"m{number}", START, ready=True)
    for number, age_s in enumerate(unready):
        found.observe(f"u{number}", START, unready_since_s=None if age_s is None else START - age_s, ready=False)
    found.begin(START)
    return found


def lose(found, count, now_s, first=0, every_s=0.0):
    for number in range(first, first + count):
        found.observe(f"m{number}", now_s + every_s * number, ready=False)


def restore(found, count, now_s, first=0):
    for number in range(first, first + count):
        found.observe(f"m{number}", now_s, ready=True)


@cases(
    ("clusters", "lost", "engaged"),
    {
        "1 of 40": (40, 1, False),
        "exactly 30 percent": (40, 12, False),
        "more than 30 percent": (40, 13, True),
        "40 percent, but only two clusters": (5, 2, False),
        "three of five": (5, 3, True),
        "all of three": (3, 3, True),
        "all of two": (2, 2, False),
    },
)
def test_the_brake_engages_when_too_many_clusters_turn_unready(clusters, lost, engaged):
    found = brake(clusters)
    lose(found, lost, START + 10)
    assert (found.engaged(START + 10) is not None) is engaged


def test_the_reason_has_the_numbers():
    found = brake(10)
    lose(found, 6, START + 10)
    assert found.engaged(START + 11) == "4 of 10 ready clusters turned unready within 300 s"
    assert found.state(START + 11).unready == 6


@pytest.mark.parametrize(("every_s", "engaged"), [(10.0, True), (160.0, False)])
def test_clusters_that_turn_unready_one_after_the_other_are_no_storm(every_s, engaged):
    found = brake(12)
    lose(found, 6, START + 10, every_s=every_s)
    assert (found.engaged(START + 1000) is not None) is engaged


def test_a_cluster_that_was_unready_before_is_no_part_of_the_share():
    found = brake(10, [5000] * 2)
    lose(found, 3, START + 10)
    assert found.engaged(START + 10) is None
    lose(found, 1, START + 11, first=3)
    assert found.engaged(START + 11) is not None


def test_the_brake_ends_when_the_clusters_are_back_for_long_enough():
    found = brake(10)
    lose(found, 6, START + 10)
    restore(found, 4, START + 60)
    assert found.engaged(START + 179) is not None
    assert found.engaged(START + 180) is None


def test_clusters_that_are_lost_again_restart_the_wait():
    found = brake(10)
    lose(found, 6, START + 10)
    restore(found, 6, START + 60)
    lose(found, 5, START + 100)
    restore(found, 5, START + 150)
    assert found.engaged(START + 269) is not None
    assert found.engaged(START + 270) is None


def test_a_storm_does_not_end_by_itself_while_its_clusters_are_away():
    found = brake(10)
    lose(found, 6, START + 10)
    assert found.engaged(START + 30 * 86400) is not None


def test_clusters_that_follow_later_are_part_of_the_storm():
    found = brake(10)
    lose(found, 4, START + 10)
    lose(found, 4, START + 900, first=4)
    restore(found, 2, START + 910)
    assert found.engaged(START + 2000) is not None


def test_deleted_clusters_are_no_part_of_a_storm():
    found = brake(10)
    lose(found, 4, START + 10)
    for number in range(4):
        found.remove(f"m{number}", START + 20)
    assert found.engaged(START + 139) is not None
    assert found.engaged(START + 140) is None


def test_the_removal_of_ready_clusters_starts_no_storm():
    found = brake(20)
    lose(found, 3, START + 10)
    for number in range(10, 20):
        found.remove(f"m{number}", START + 20)
    assert found.engaged(START + 20) is None


def test_clusters_that_join_unready_are_no_storm():
    found = brake(4)
    for number in range(10):
        found.observe(f"new{number}", START + 10, ready=False)
    assert found.engaged(START + 10) is None


def test_a_resume_ends_the_brake_and_accepts_the_loss():
    found = brake(10)
    lose(found, 6, START + 10)
    assert found.resume() == 6
    assert found.engaged(START + 20) is None
    lose(found, 1, START + 30, first=6)
    assert found.engaged(START + 30) is None


def test_an_accepted_cluster_counts_again_after_it_was_ready():
    found = brake(10)
    lose(found, 6, START + 10)
    found.resume()
    restore(found, 6, START + 100)
    lose(found, 6, START + 5000)
    assert found.engaged(START + 5000) is not None


@cases(
    ("ages_s", "record", "reason"),
    {
        "they turned unready together": ([50] * 6, {}, "6 clusters turned unready together"),
        "also some time ago": ([5000] * 6, {}, "6 clusters turned unready together"),
        "more than a day ago": ([MAX_AGE_S + 1] * 6, {}, ""),
        "one after the other": ([1000 * each for each in range(6)], {}, ""),
        "they were never ready": ([None] * 6, {}, ""),
        "too few": ([50] * 3, {}, ""),
        "a user ended the brake later": ([50] * 6, {"resumed_s": START - 10}, ""),
        "a user ended one before": ([50] * 6, {"resumed_s": START - 60}, "turned unready together"),
        "the brake was engaged": ([MAX_AGE_S + 1] * 6, {"engaged": True}, "the previous leader stopped all moves"),
        "it was, and all clusters are back": ([], {"engaged": True}, "the previous leader had stopped"),
        "no process has led for long": ([], {"outage_s": 82.0}, "no controller led for 82 s"),
        "a leader has ended and another follows": ([], {"outage_s": 9.0}, ""),
    },
)
def test_a_process_that_starts_judges_by_the_times_of_the_conditions(ages_s, record, reason):
    found = StormBrake(SETTINGS)
    for number in range(10):
        found.observe(f"m{number}", START, ready=True)
    for number, age_s in enumerate(ages_s):
        found.observe(f"u{number}", START, unready_since_s=None if age_s is None else START - age_s, ready=False)
    assert found.engaged(START) == "the process starts"
    found.begin(START, **record)
    engaged = found.engaged(START) or ""
    assert reason in engaged
    assert bool(reason) is bool(engaged)


def test_a_brake_of_the_previous_leader_ends_after_the_wait_if_all_clusters_are_back():
    found = StormBrake(SETTINGS)
    found.observe("m0", START, ready=True)
    found.begin(START, engaged=True)
    assert found.engaged(START + 119) is not None
    assert found.engaged(START + 120) is None


def test_an_api_server_out_of_reach_stops_moves_until_some_time_after_it_is_back():
    found = brake(40)
    found.out_of_reach(START + 10)
    found.out_of_reach(START + 15)
    assert found.engaged(START + 19) is None
    assert found.engaged(START + 20) == "the API server is out of reach"
    found.in_reach(START + 50)
    assert found.engaged(START + 169) == "the API server was out of reach for 40 s"
    assert found.engaged(START + 170) is None


def test_a_short_outage_stops_nothing():
    found = brake(40)
    found.out_of_reach(START + 10)
    found.in_reach(START + 19)
    assert found.engaged(START + 19) is None


def test_a_brake_that_is_disabled_never_engages():
    found = brake(10, enabled=False)
    lose(found, 9, START + 10)
    found.out_of_reach(START + 10)
    assert found.engaged(START + 100) is None


def test_a_brake_ends_when_it_is_disabled():
    found = brake(10)
    lose(found, 9, START + 10)
    found.configure(BrakeSettings(enabled=False))
    assert found.engaged(START + 20) is None
    found.configure(SETTINGS)
    assert found.engaged(START + 20) is None


EVENT = st.tuples(st.integers(0, 9), st.booleans(), st.integers(0, 200))


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENT, max_size=40))
def test_while_too_many_clusters_of_one_window_are_away_the_brake_is_engaged(events):
    """The definition, evaluated afresh from the history at every step."""
    found, now_s, turned = brake(10), START, {}
    for number, ready, wait_s in events:
        now_s += wait_s
        name = f"m{number}"
        if ready:
            turned.pop(name, None)
        else:
            turned.setdefault(name, now_s)
        found.observe(name, now_s, ready=ready)
        recent = [at_s for at_s in turned.values() if at_s > now_s - 300]
        if len(recent) >= 3 and len(recent) * 100 > 30 * (len(recent) + 10 - len(turned)) and turned.get(name) == now_s:
            assert found.engaged(now_s) is not None
        if not turned and not found.engaged(now_s):
            assert found.state(now_s).unready == 0
    for number in range(10):
        found.observe(f"m{number}", now_s, ready=True)
    assert found.engaged(now_s + 120) is None
