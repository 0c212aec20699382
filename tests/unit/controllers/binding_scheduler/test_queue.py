"""The order of the bindings in the queue."""

import pytest
from fake_clock import FakeClock
from retained import retained
from tables import cases

from berthmaster.controllers.binding_scheduler.scheduling_queue import (
    FIRST_WAIT_S,
    LATE_SHARE,
    LONGEST_UNSCHEDULABLE_S,
    RETRIES,
    SchedulingQueue,
)
from berthmaster.model.meta import Key

START_S = FakeClock().passed_s


def key(name: str) -> Key:
    return "ns", name


@pytest.fixture
def priorities() -> dict[Key, int]:
    return {}


@pytest.fixture
def queue(clock: FakeClock, priorities: dict[Key, int]) -> SchedulingQueue:
    return SchedulingQueue(clock, lambda each: priorities.get(each, 0))


def taken(queue: SchedulingQueue) -> list[str]:
    """Take all active keys, and return their names in order."""
    names = []
    while queue.lengths()["active"]:
        found = queue.take()
        names.append(found[1])
        queue.done(found)
    return names


def take_one(queue: SchedulingQueue) -> None:
    queue.add(key("one"))
    assert queue.take() == key("one")


def test_the_highest_priority_comes_first_and_among_equals_the_longest_wait(
    queue: SchedulingQueue, priorities: dict[Key, int]
):
    priorities.update({key("high"): 10, key("low"): -1})
    for name in ("low", "first", "high", "second"):
        queue.add(key(name))
    assert taken(queue) == ["high", "first", "second", "low"]


def test_namespaces_of_equal_priority_take_turns(queue: SchedulingQueue, priorities: dict[Key, int]):
    priorities["large", "high"] = 1
    empty = retained(queue)
    for number in range(1000):
        queue.add(("large", f"large-{number}"))
    for _ in range(10):
        queue.done(queue.take() or key(""))
    for name in ("a", "b"):
        queue.add(("small", name))
    queue.add(("large", "high"))
    queue.add(("other", "c"))
    order = taken(queue)
    assert order[0] == "high"
    assert max(order.index(each) for each in ("a", "b", "c")) <= 6, "each waits for at most one key of the other ones"
    assert [each for each in order if each.startswith("large")] == [f"large-{each}" for each in range(10, 1000)]
    assert retained(queue) == empty


def test_a_changed_priority_counts_at_once(queue: SchedulingQueue, priorities: dict[Key, int]):
    queue.add(key("first"))
    queue.add(key("second"))
    priorities[key("second")] = 5
    queue.add(key("second"))
    assert taken(queue) == ["second", "first"]


def test_a_key_is_queued_once(queue: SchedulingQueue):
    for _ in range(3):
        queue.add(key("one"))
    assert taken(queue) == ["one"]


def test_a_key_that_is_added_during_its_reconcile_is_queued_again(queue: SchedulingQueue):
    take_one(queue)
    queue.add(key("one"))
    queue.add(key("two"))
    assert queue.take() == key("two")
    queue.done(key("one"))
    assert queue.take() == key("one")


@cases(
    ("failures", "wait_s"),
    {"1 s after the first failure": (1, 1), "4 s after the third": (3, 4), "at most 10 s": (9, 10)},
)
def test_failures_wait_as_long_as_in_karmada(queue: SchedulingQueue, clock: FakeClock, failures: int, wait_s: float):
    for _ in range(failures):
        queue.add(key("one"))
        assert queue.take() == key("one")
        queue.retry(key("one"))
        queue.done(key("one"))
    clock.passed_s = START_S + wait_s - 0.1
    queue.add(key("other"))
    assert taken(queue) == ["other"]
    clock.passed_s = START_S + wait_s
    queue.add(key("other"))
    assert sorted(taken(queue)) == ["one", "other"]


def test_many_failed_keys_of_a_namespace_leave_room_for_others(queue: SchedulingQueue, clock: FakeClock):
    large, small, tried = [("large", f"large-{each}") for each in range(4000)], ("small", "web"), 0
    empty = retained(queue)
    for each in large:
        queue.add(each)
    for _ in range(300):
        while (found := queue.take(wait=False)) is not None:
            tried += 1
            assert queue.retry(found) >= FIRST_WAIT_S
            queue.done(found)
        clock.passed_s += 0.1
    assert 4000 + 20 * RETRIES < tried <= 4000 + 30 * RETRIES, "not all 4,000 every 10 s"
    assert queue.retry(small) == FIRST_WAIT_S, "its own namespace has one failed key"
    for each in (*large, small):
        queue.remove(each)
    assert queue.take(wait=False) is None
    clock.passed_s += LONGEST_UNSCHEDULABLE_S
    assert queue.take(wait=False) is None
    assert retained(queue) == empty


def test_an_unschedulable_key_waits_until_it_is_activated(queue: SchedulingQueue):
    take_one(queue)
    queue.add_unschedulable(key("one"), None)
    queue.done(key("one"))
    assert queue.lengths() == {"active": 0, "backoff": 0, "unschedulable": 1}
    assert queue.activate([key("other")]) == 0
    assert queue.activate([key("one")]) == 1
    assert taken(queue) == ["one"]


def test_a_key_that_changed_during_its_reconcile_is_not_unschedulable(queue: SchedulingQueue):
    take_one(queue)
    queue.add(key("one"))
    queue.add_unschedulable(key("one"), None)
    queue.done(key("one"))
    assert queue.lengths()["unschedulable"] == 0
    assert taken(queue) == ["one"]


def test_an_unschedulable_key_is_tried_again_after_five_minutes(queue: SchedulingQueue, clock: FakeClock):
    queue.add_unschedulable(key("one"), None)
    clock.passed_s = START_S + LONGEST_UNSCHEDULABLE_S - 1
    queue.activate_expired()
    assert queue.unschedulable() == [(None, [key("one")])]
    clock.passed_s = START_S + LONGEST_UNSCHEDULABLE_S
    queue.activate_expired()
    assert taken(queue) == ["one"]


def test_a_removed_key_is_forgotten(queue: SchedulingQueue):
    queue.add_unschedulable(key("one"), None)
    queue.retry(key("two"))
    queue.remove(key("one"))
    queue.remove(key("two"))
    assert queue.lengths() == {"active": 0, "backoff": 0, "unschedulable": 0}


def test_a_key_that_is_being_reconciled_is_activated_too(queue: SchedulingQueue):
    take_one(queue)
    assert queue.taken() == [key("one")]
    assert queue.activate([key("one")]) == 1
    queue.add_unschedulable(key("one"), None)
    queue.done(key("one"))
    assert taken(queue) == ["one"]
    assert (queue.unschedulable(), queue.taken()) == ([], [])


def test_a_key_whose_time_came_is_not_unschedulable_any_more(queue: SchedulingQueue, clock: FakeClock):
    queue.add_unschedulable(key("one"), None)
    queue.add_after(key("one"), 5.0)
    clock.passed_s = START_S + 6.0
    assert queue.take() == key("one")
    queue.done(key("one"))
    assert queue.lengths() == {"active": 0, "backoff": 0, "unschedulable": 0}


def test_late_keys_come_last_except_for_their_share(queue: SchedulingQueue):
    others = [str(number) for number in range(LATE_SHARE + 2)]
    for number in range(3):
        queue.add_late(key(f"late{number}"))
    for name in others:
        queue.add(key(name))
    order = taken(queue)
    assert [name for name in order if not name.startswith("late")] == others
    late = [index for index, name in enumerate(order) if name.startswith("late")]
    assert late == [LATE_SHARE - 1, LATE_SHARE + 3, LATE_SHARE + 4]


def test_late_keys_do_not_make_the_queue_busy(queue: SchedulingQueue):
    queue.add_late(key("late"))
    assert not queue.busy
    queue.add(key("one"))
    assert queue.busy


def test_a_late_key_that_is_added_is_not_late_any_more(queue: SchedulingQueue):
    queue.add_late(key("one"))
    queue.add(key("two"))
    queue.add(key("one"))
    queue.add(key("three"))
    assert taken(queue) == ["two", "one", "three"]


def test_a_waiting_key_does_not_become_late(queue: SchedulingQueue):
    queue.add(key("one"))
    queue.add_late(key("one"))
    assert queue.busy


def test_a_key_that_becomes_late_during_its_reconcile_comes_last(queue: SchedulingQueue):
    take_one(queue)
    queue.add(key("two"))
    queue.add_late(key("one"))
    queue.done(key("one"))
    assert taken(queue) == ["two", "one"]
