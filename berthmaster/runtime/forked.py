"""Long computations in a process of their own, so that no other thread of this one waits for the interpreter.

The process is a fork: it has every object of this one as it was at that moment, and its memory returns to the system
when it ends. A fork of a process with threads can find a lock that another thread held. A computation therefore works
on immutable values, and takes no lock that another thread of this process may hold.
"""

import gc
import logging
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Final, Generic, TypeVar

from berthmaster.model.errors import BerthmasterError
from berthmaster.runtime.logs import log_exceptions

Value = TypeVar("Value")
_LOG: Final = logging.getLogger("berthmaster.forked")
_FORK: Final = multiprocessing.get_context("fork")
_CHECK_S: Final = 0.1
_PARENT_S: Final = 1.0
"""How often a process looks whether its parent has ended."""
_NICE: Final = 10
_COLLECTED: Final = 500_000
"""After how many new objects garbage is collected. The memory returns to the system soon, and little is garbage."""
_STANDARD_FILES: Final = 3
_MOST_FILES: Final = 2**20


class Forked(Generic[Value]):
    """The values that a process computes. Iterate over them once, soon, and end the iteration to end the process.

    Args:
        compute: calls its argument with each value, which must be picklable. It may raise a ``BerthmasterError``.
            A crash is logged.
        check: called before each value, and ten times a second. An exception that it raises ends the process.
    """

    def __init__(self, compute: Callable[[Callable[[Value], None]], None], check: Callable[[], None]) -> None:
        """Start the process. Hold the locks of what it reads."""
        self._check = check
        self._values, sender = _FORK.Pipe(duplex=False)
        self._process = _FORK.Process(target=_run, args=(compute, sender, os.getpid()), daemon=True)
        self._process.start()
        sender.close()

    def __iter__(self) -> Iterator[Value]:
        try:
            while (received := self._next()) is not None:
                yield received[0]
        finally:
            self._process.kill()
            self._process.join()
            self._values.close()

    def _next(self) -> tuple[Value] | None:
        """Return the next value; None at the end. Raises what the computation raised."""
        self._check()
        while not self._values.poll(_CHECK_S):
            self._check()
        try:
            received: tuple[Value] | BerthmasterError | None = self._values.recv()
        except (EOFError, OSError):  # it ended between two values, or within one
            self._process.join()
            raise RuntimeError(f"the process of a computation ended with status {self._process.exitcode}") from None
        if isinstance(received, BerthmasterError):
            raise received
        return received


def _run(compute: Callable[[Callable[[Value], None]], None], sender: "Connection[object, object]", parent: int) -> None:
    """Compute in the new process, and end it without the end of a Python process, which belongs to its parent."""

    def work() -> None:
        _leave_others(sender.fileno(), parent)
        try:
            compute(lambda value: sender.send((value,)))
            sender.send(None)
        except BerthmasterError as error:
            sender.send(error)

    os._exit(not log_exceptions(work, _LOG, "a computation in a process of its own failed"))


def _leave_others(pipe: int, parent: int) -> None:
    """Leave the connections, the signals and the processor to other processes, and shared memory as it is."""
    os.closerange(_STANDARD_FILES, pipe)
    os.closerange(pipe + 1, _MOST_FILES)
    signal.set_wakeup_fd(-1)
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(each, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, lambda *_: None if os.getppid() == parent else os._exit(1))
    signal.setitimer(signal.ITIMER_REAL, _PARENT_S, _PARENT_S)
    os.nice(_NICE)
    gc.freeze()  # a collection would write to all objects, and so copy all pages
    gc.set_threshold(_COLLECTED)
