"""What the clients of a process share: its threads, and the memory for requests. Pure, without sockets and threads."""

from collections import Counter, deque
from collections.abc import Callable, Hashable
from enum import Enum, auto
from typing import Final, Generic, TypeVar

SMALL_BYTES: Final = 64 * 2**10
"""Up to this size a request never waits for memory."""

Job = TypeVar("Job", bound=Hashable)


class FairQueue(Generic[Job]):
    """Jobs of several peers that share a number of threads.

    The peer with the fewest jobs in progress comes first, so no peer can take all threads while another one waits.
    Jobs of one peer keep their order, except that a job that does not fit does not block those behind it.
    """

    def __init__(self, threads: int) -> None:
        self._free = threads
        self._waiting: dict[Hashable, deque[Job]] = {}
        self._running: Counter[Hashable] = Counter()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def put(self, peer: Hashable, job: Job) -> None:
        self._waiting.setdefault(peer, deque()).append(job)

    def take(self, fits: Callable[[Job], bool]) -> Job | None:
        """Give a thread to the next job that fits now. Return None if no thread is free, or no job fits."""
        if not self._free:
            return None
        for peer in sorted(self._waiting, key=self._running.__getitem__):
            job = next(filter(fits, self._waiting[peer]), None)
            if job is not None:
                jobs = self._waiting[peer]
                self.discard(peer, job)
                if self._waiting.pop(peer, None):  # the peer goes to the end of its equals
                    self._waiting[peer] = jobs
                self._free -= 1
                self._running[peer] += 1
                return job
        return None

    def finish(self, peer: Hashable) -> None:
        """Take a thread back."""
        self._free += 1
        self._running[peer] -= 1
        if not self._running[peer]:
            del self._running[peer]

    def discard(self, peer: Hashable, job: Job) -> None:
        self._waiting[peer].remove(job)
        if not self._waiting[peer]:
            del self._waiting[peer]


class MemoryUse(Enum):
    """What memory is used for.

    Attributes:
        ARRIVED: requests that arrive, or wait for a thread.
        UNREAD: answers that clients have not read.
    """

    ARRIVED = auto()
    PROCESSED = auto()
    UNREAD = auto()


class MemoryBudget(Generic[Job]):
    """Counts the memory of requests. Each use has a share of the limit, so that none can block another."""

    FACTOR: Final = 13
    """A request in progress needs at most this many times its size: JSON becomes objects, and objects become an answer.

    ``make bench-hostile`` measures 10 for labels and 12.7 for nodes of kube-scheduler.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limits = {
            MemoryUse.ARRIVED: limit_bytes / 4,
            MemoryUse.PROCESSED: limit_bytes / 2,
            MemoryUse.UNREAD: limit_bytes / 4,
        }
        self._used = dict.fromkeys(MemoryUse, 0)
        self._held: dict[Job, tuple[MemoryUse, int]] = {}

    def hold(self, client: Job, use: MemoryUse, size_bytes: int) -> None:
        """Record the only memory that a client uses from now on."""
        self.release(client)
        self._held[client] = use, size_bytes
        self._used[use] += size_bytes

    def process(self, client: Job, size_bytes: int) -> None:
        """Record that a request is in progress from now on."""
        self.hold(client, MemoryUse.PROCESSED, size_bytes * self.FACTOR if size_bytes > SMALL_BYTES else 0)

    def release(self, client: Job) -> None:
        """Record that a client uses no memory: its request is answered, or its connection is closed."""
        if (held := self._held.pop(client, None)) is not None:
            self._used[held[0]] -= held[1]

    def exhausted(self, use: MemoryUse) -> bool:
        """Return whether a share is used up."""
        return self._used[use] >= self._limits[use]

    def may_process(self, size_bytes: int) -> bool:
        """Return whether a request may begin. One may always: else one larger than the share would wait forever."""
        if size_bytes <= SMALL_BYTES or not self._used[MemoryUse.PROCESSED]:
            return True
        return self._used[MemoryUse.PROCESSED] + size_bytes * self.FACTOR <= self._limits[MemoryUse.PROCESSED]
