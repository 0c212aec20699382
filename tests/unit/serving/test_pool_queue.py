"""How many threads serve requests, and in which order requests get one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.serving.pool_queue import PoolQueue, PoolSizes


@pytest.mark.parametrize(
    ("threads", "answers_wait", "requests"), [(32, False, 2), (128, True, 64), (1, True, 1), (3, True, 2)]
)
def test_threads_that_compute_are_few_and_threads_that_wait_may_be_many(threads, answers_wait, requests):
    sizes = PoolSizes.of(threads, answers_wait=answers_wait)
    assert (sizes.requests, sizes.streams) == (requests, max(1, threads // 2))


def always(_job):
    return True


def filled(threads, *jobs):
    queue = PoolQueue(threads)
    for job in jobs:
        queue.put(job[0], job)
    return queue


def test_jobs_of_one_peer_keep_their_order():
    queue = filled(3, "a1", "a2", "a3")
    assert [queue.take(always) for _ in range(3)] == ["a1", "a2", "a3"]


def test_no_job_begins_without_a_free_thread():
    queue = filled(1, "a1", "a2")
    assert [queue.take(always), queue.take(always)] == ["a1", None]
    queue.finish("a1")
    assert queue.take(always) == "a2"


def test_the_peer_with_the_fewest_jobs_in_progress_comes_first():
    queue = filled(4, "a1", "a2", "a3", "a4", "b1")
    assert [queue.take(always) for _ in range(4)] == ["a1", "b1", "a2", "a3"]


def test_equal_peers_take_turns():
    queue = filled(1, "a1", "a2", "b1", "b2")
    order = []
    while (job := queue.take(always)) is not None:
        order.append(job)
        queue.finish(job)
    assert order == ["a1", "b1", "a2", "b2"]


def test_a_job_that_does_not_fit_blocks_no_other():
    queue = filled(2, "a-large", "a2", "b1")
    assert [queue.take(lambda job: "large" not in job) for _ in range(2)] == ["a2", "b1"]
    assert len(queue) == 1


def test_a_discarded_job_never_begins():
    queue = filled(2, "a1", "b1")
    for job in ("a1", "unknown"):
        queue.discard(job)
    assert [queue.take(always), queue.take(always), len(queue)] == ["b1", None, 0]
    queue.discard("b1")  # in progress: it keeps its thread
    queue.finish("b1")


@given(st.integers(1, 4), st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 99)), max_size=30, unique=True))
def test_every_job_begins_once_and_threads_are_never_exceeded(threads, jobs):
    queue = PoolQueue(threads)
    for job in jobs:
        queue.put(job[0], job)
    begun, running = [], []
    while len(queue) or running:
        while (job := queue.take(always)) is not None:
            running.append(job)
        assert 0 < len(running) <= threads
        begun.append(running[0])
        queue.finish(running.pop(0))
    assert sorted(begun) == sorted(jobs)
