"""How many threads serve requests, and in which order requests get one: pure, without threads."""

from collections import Counter, deque
from collections.abc import Callable, Hashable
from typing import Final, Generic, NamedTuple, TypeVar

_COMPUTING: Final = 2
"""With two threads that compute, the polling thread waits for the interpreter half as long as with four."""

Job = TypeVar("Job", bound=Hashable)


class PoolSizes(NamedTuple):
    """How many threads serve each kind of request.

    Attributes:
        requests: complete requests.
        streams: requests that the application reads while they arrive.
        waiting: requests whose answers wait for another service.
    """

    requests: int
    streams: int
    waiting: int = 1

    @classmethod
    def of(cls, threads: int, *, answers_wait: bool = False) -> "PoolSizes":
        """Divide threads. Python runs one thread at a time: more threads that compute only delay the polling thread.

        Threads that wait compute little, so as many as for streams come on top.

        Args:
            threads: the number of threads for streams and for complete requests.
            answers_wait: whether complete requests wait for another service as well.
        """
        streams = max(1, threads // 2)
        rest = max(1, threads - streams)
        return cls(rest if answers_wait else min(_COMPUTING, rest), streams, streams)


class PoolQueue(Generic[Job]):
    """Jobs of several peers that share a number of threads.

    The peer with the fewest jobs in progress comes first, so no peer can take all threads while another one waits.
    Jobs of one peer keep their order, except that a job that does not fit does not block those behind it.
    """

    def __init__(self, threads: int) -> None:
        self._free = threads
        self._waiting: dict[Hashable, deque[Job]] = {}
        self._running: Counter[Hashable] = Counter()
        self._peer_of: dict[Job, Hashable] = {}

    def __len__(self) -> int:
        """Return the number of jobs that wait."""
        return sum(map(len, self._waiting.values()))

    def put(self, peer: Hashable, job: Job) -> None:
        """Let a job wait for a thread."""
        self._waiting.setdefault(peer, deque()).append(job)
        self._peer_of[job] = peer

    def take(self, fits: Callable[[Job], bool]) -> Job | None:
        """Give a thread to the next job. Return None if no thread is free, or no job fits.

        Args:
            fits: returns whether a job can run now.
        """
        if not self._free:
            return None
        for peer in sorted(self._waiting, key=self._running.__getitem__):
            jobs = self._waiting[peer]
            job = next(filter(fits, jobs), None)
            if job is not None:
                jobs.remove(job)
                del self._waiting[peer]
                if jobs:  # the peer goes to the end of its equals
                    self._waiting[peer] = jobs
                self._free -= 1
                self._running[peer] += 1
                return job
        return None

    def finish(self, job: Job) -> None:
        """Take the thread of a job back."""
        peer = self._peer_of.pop(job)
        self._free += 1
        self._running[peer] -= 1
        if not self._running[peer]:
            del self._running[peer]

    def discard(self, job: Job) -> None:
        """Remove a job that waits. Does nothing if it does not wait."""
        peer = self._peer_of.get(job)
        jobs = self._waiting.get(peer)
        if jobs is None or job not in jobs:
            return
        jobs.remove(job)
        del self._peer_of[job]
        if not jobs:
            del self._waiting[peer]
