import threading

import pytest
from fake_clock import FakeClock

from berthmaster.runtime.rate_limit import TokenBucket


def test_a_bucket_gives_a_burst_and_then_a_steady_rate():
    clock = FakeClock()
    bucket = TokenBucket(clock, per_s=10, burst=3)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    clock.pass_by(0.1)
    assert [bucket.take(), bucket.take()] == [True, False]
    clock.pass_by(60)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False], "it holds no more than the burst"


def test_a_bucket_reserves_tokens_in_advance_up_to_a_limit():
    bucket = TokenBucket(FakeClock(), per_s=10, burst=1)
    waits = [bucket.reserve(0.35) for _ in range(5)]
    assert waits[:4] == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert waits[4] is None
    assert bucket.reserve(0.45) == pytest.approx(0.4), "a refused reservation takes no token"


def test_a_bucket_counts_correctly_in_several_threads():
    bucket = TokenBucket(FakeClock(), per_s=1, burst=1000)
    taken = []

    def take() -> None:
        taken.extend(bucket.take() for _ in range(500))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == 1000
