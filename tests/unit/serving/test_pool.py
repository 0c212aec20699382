"""Who has to give its thread back."""

import time
from contextlib import ExitStack

import pytest

from berthmaster.serving.pool import Pool


class Client:
    def __init__(self, since_s, *, receiving=True):
        self.started_at, self.receiving, self.interrupted = time.monotonic() - since_s, receiving, False

    def interrupt(self):
        self.interrupted = True


@pytest.mark.parametrize(
    ("threads", "queued", "dropped"),
    [
        pytest.param(4, 0, [], id="nobody while nobody waits"),
        pytest.param(5, 1, [], id="nobody while a thread is free"),
        pytest.param(4, 1, [0], id="the slowest for one"),
        pytest.param(4, 2, [0, 1], id="the two slowest for two"),
        pytest.param(4, 9, [0, 1], id="none that has asked, or was given its thread just now"),
    ],
)
def test_as_many_are_dropped_as_wait(threads, queued, dropped):
    pool = Pool(threads)
    clients = [Client(9), Client(8), Client(0), Client(7, receiving=False)]
    with ExitStack() as stack:
        for client in clients:
            pool.queue()
            stack.enter_context(pool.serving(client))
        for _ in range(queued):
            pool.queue()
        pool.drop_slowest()
    assert [index for index, client in enumerate(clients) if client.interrupted] == dropped
