import threading

import pytest
from fake_clock import FakeClock
from waiting import LIMIT_S, wait_for

from berthmaster.controllers.work_queue import WorkQueue
from berthmaster.runtime.clock import SystemClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(clock) -> WorkQueue[str]:
    return WorkQueue(clock, first_wait_s=1.0, longest_wait_s=8.0)


def ready(queue: WorkQueue[str]) -> list[str]:
    return list(iter(lambda: queue.take(wait=False), None))


def test_keys_are_returned_in_order_and_once(queue):
    for key in "abcab":
        queue.add(key)
    assert len(queue) == 3
    assert ready(queue) == ["a", "b", "c"]
    assert len(queue) == 0


def test_a_taken_key_waits_until_it_is_done(queue):
    queue.add("a")
    assert queue.take() == "a"
    queue.add("a")
    assert ready(queue) == []
    queue.done("a")
    assert ready(queue) == ["a"]


def test_backoff_grows_until_forget(queue, clock):
    waits = []
    for _ in range(6):
        queue.retry("a")
        waits.append(queue.next_due_s())
        clock.pass_by(waits[-1])
        assert ready(queue) == ["a"]
        queue.done("a")
    assert waits == [1, 2, 4, 8, 8, 8]
    queue.forget("a")
    queue.retry("a")
    assert queue.next_due_s() == 1


def test_a_retry_waits_at_least_the_given_time(queue, clock):
    queue.retry("a", at_least_s=5)
    clock.pass_by(4.9)
    assert ready(queue) == []
    clock.pass_by(0.2)
    assert ready(queue) == ["a"]


def test_an_added_key_does_not_wait_for_its_backoff(queue, clock):
    queue.retry("a")
    queue.add("a")
    assert ready(queue) == ["a"]
    queue.done("a")
    clock.pass_by(10)
    assert ready(queue) == [], "the backoff is over"


def test_the_earliest_time_counts(queue, clock):
    queue.add_after("a", 5)
    queue.add_after("a", 2)
    queue.add_after("a", 7)
    clock.pass_by(2)
    assert ready(queue) == ["a"]
    queue.done("a")
    clock.pass_by(10)
    assert ready(queue) == []


def test_a_wait_of_zero_is_immediate(queue):
    queue.add_after("a", 0)
    assert ready(queue) == ["a"]


def test_a_closed_queue_releases_all_waiters_and_accepts_nothing(queue):
    found: list[str | None] = []
    waiting = [threading.Thread(target=lambda: found.append(queue.take())) for _ in range(3)]
    for thread in waiting:
        thread.start()
    queue.close()
    for thread in waiting:
        thread.join(LIMIT_S)
    assert found == [None] * 3
    queue.add("a")
    queue.add_after("b", 1)
    assert len(queue) == 0


def test_no_two_workers_have_the_same_key_and_no_change_is_lost():
    queue: WorkQueue[int] = WorkQueue(SystemClock())
    keys, lock = 20, threading.Lock()
    wanted, done, busy = [0] * keys, [0] * keys, set()

    def work() -> None:
        while (key := queue.take()) is not None:
            with lock:
                assert key not in busy
                busy.add(key)
                latest = wanted[key]
            done[key] = latest
            with lock:
                busy.discard(key)
            queue.done(key)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for worker in workers:
        worker.start()
    for number in range(5000):
        with lock:
            wanted[number % keys] += 1
        queue.add(number % keys)
    wait_for(lambda: done == wanted and not len(queue))
    queue.close()
    assert done == wanted
