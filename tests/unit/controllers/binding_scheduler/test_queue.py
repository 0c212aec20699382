"""The bindings that wait."""

import pytest

from berthmaster.controllers.binding_scheduler.queue import LATE_TURN, LONGEST_PARKING_S, SchedulingQueue
from berthmaster.kube.requests import Key


class HandClock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.time_s = 0.0

    def monotonic_s(self) -> float:
        return self.time_s


def key(name: str) -> Key:
    return "ns", name


@pytest.fixture
def priorities() -> dict[Key, int]:
    return {}


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def queue(clock: HandClock, priorities: dict[Key, int]) -> SchedulingQueue:
    return SchedulingQueue(clock, lambda each: priorities.get(each, 0))  # type: ignore[arg-type] # it asks no more


def taken(queue: SchedulingQueue) -> list[str]:
    """The names of all keys that are ready, in their order."""
    names = []
    while queue.lengths()["active"]:
        found = queue.take()
        assert found is not None
        names.append(found[1])
        queue.done(found)
    return names


def test_the_most_important_goes_first_and_among_equals_the_one_that_waited_longest(
    queue: SchedulingQueue, priorities: dict[Key, int]
):
    priorities.update({key("high"): 10, key("low"): -1})
    for name in ("low", "first", "high", "second"):
        queue.add(key(name))
    assert taken(queue) == ["high", "first", "second", "low"]


def test_a_priority_that_rises_while_it_waits_counts(queue: SchedulingQueue, priorities: dict[Key, int]):
    queue.add(key("first"))
    queue.add(key("second"))
    priorities[key("second")] = 5
    queue.add(key("second"))
    assert taken(queue) == ["second", "first"]


def test_a_key_is_there_once_however_often_it_is_added(queue: SchedulingQueue):
    for _ in range(3):
        queue.add(key("one"))
    assert taken(queue) == ["one"]


def test_a_key_that_is_added_while_it_is_worked_on_comes_again_afterwards(queue: SchedulingQueue):
    queue.add(key("one"))
    assert queue.take() == key("one")
    queue.add(key("one"))
    queue.add(key("two"))
    assert queue.take() == key("two")
    queue.done(key("one"))
    assert queue.take() == key("one")


@pytest.mark.parametrize(
    ("failures", "wait_s"),
    [
        pytest.param(1, 1, id="one second after the first failure"),
        pytest.param(3, 4, id="four after the third"),
        pytest.param(9, 10, id="never more than ten"),
    ],
)
def test_failures_wait_as_long_as_karmada_lets_them(
    queue: SchedulingQueue, clock: HandClock, failures: int, wait_s: float
):
    for _ in range(failures):
        queue.add(key("one"))
        assert queue.take() == key("one")
        queue.retry(key("one"))
        queue.done(key("one"))
    clock.time_s = wait_s - 0.1
    queue.add(key("other"))
    assert taken(queue) == ["other"]
    clock.time_s = wait_s
    queue.add(key("other"))
    assert sorted(taken(queue)) == ["one", "other"]


def test_what_fits_nowhere_is_left_alone_until_it_is_woken(queue: SchedulingQueue):
    queue.add(key("one"))
    assert queue.take() == key("one")
    queue.park(key("one"))
    queue.done(key("one"))
    assert queue.lengths() == {"active": 0, "backoff": 0, "unschedulable": 1}
    assert queue.wake([key("other")]) == 0
    assert queue.wake([key("one")]) == 1
    assert taken(queue) == ["one"]


def test_what_changed_while_it_was_found_to_fit_nowhere_is_tried_again(queue: SchedulingQueue):
    queue.add(key("one"))
    assert queue.take() == key("one")
    queue.add(key("one"))
    queue.park(key("one"))
    queue.done(key("one"))
    assert queue.lengths()["unschedulable"] == 0
    assert taken(queue) == ["one"]


def test_nothing_is_left_alone_for_longer_than_five_minutes(queue: SchedulingQueue, clock: HandClock):
    queue.park(key("one"))
    clock.time_s = LONGEST_PARKING_S - 1
    queue.wake_old()
    assert queue.asleep() == [key("one")]
    clock.time_s = LONGEST_PARKING_S
    queue.wake_old()
    assert taken(queue) == ["one"]


def test_what_means_nothing_any_more_is_forgotten(queue: SchedulingQueue):
    queue.park(key("one"))
    queue.retry(key("two"))
    queue.leave(key("one"))
    queue.leave(key("two"))
    assert queue.lengths() == {"active": 0, "backoff": 0, "unschedulable": 0}


def test_what_is_being_found_to_fit_nowhere_hears_of_the_room_that_it_missed(queue: SchedulingQueue):
    queue.add(key("one"))
    assert queue.take() == key("one")
    assert queue.asleep() == [key("one")]
    assert queue.wake([key("one")]) == 1
    queue.park(key("one"))
    queue.done(key("one"))
    assert taken(queue) == ["one"]
    assert queue.asleep() == []


def test_what_comes_by_its_own_time_is_not_left_alone_any_more(queue: SchedulingQueue, clock: HandClock):
    queue.park(key("one"))
    queue.add_after(key("one"), 5.0)
    clock.time_s = 6.0
    assert queue.take() == key("one")
    queue.done(key("one"))
    assert queue.lengths() == {"active": 0, "backoff": 0, "unschedulable": 0}


def test_late_keys_come_after_all_others_but_at_every_late_turn_one_comes_in_between(queue: SchedulingQueue):
    others = [str(number) for number in range(LATE_TURN + 2)]
    for number in range(3):
        queue.add_late(key(f"late{number}"))
    for name in others:
        queue.add(key(name))
    order = taken(queue)
    assert [name for name in order if not name.startswith("late")] == others
    late = [index for index, name in enumerate(order) if name.startswith("late")]
    assert late == [LATE_TURN - 1, LATE_TURN + 3, LATE_TURN + 4]


def test_only_others_than_late_keys_make_it_busy(queue: SchedulingQueue):
    queue.add_late(key("late"))
    assert not queue.busy
    queue.add(key("one"))
    assert queue.busy


def test_a_late_key_that_is_added_comes_in_its_turn_and_once(queue: SchedulingQueue):
    queue.add_late(key("one"))
    queue.add(key("two"))
    queue.add(key("one"))
    queue.add(key("three"))
    assert taken(queue) == ["two", "one", "three"]


def test_a_key_that_waits_already_is_not_made_late(queue: SchedulingQueue):
    queue.add(key("one"))
    queue.add_late(key("one"))
    assert queue.busy


def test_a_key_made_late_while_it_is_worked_on_comes_after_the_others(queue: SchedulingQueue):
    queue.add(key("one"))
    assert queue.take() == key("one")
    queue.add(key("two"))
    queue.add_late(key("one"))
    queue.done(key("one"))
    assert taken(queue) == ["two", "one"]
