"""Child processes of a test run: each has a log, every wait a bound, and all are ended by their ids."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar

from free_ports import free_port

Value = TypeVar("Value")

POLL_S: Final = 0.05
TAIL_LINES: Final = 25
_STOP_LIMIT_S: Final = 30.0
_LAST_LIMIT_S: Final = 5.0


class NotInTimeError(AssertionError):
    """Something did not become true within its bound; the message says what, and why if that is known."""


def wait_for(what: str, check: Callable[[], Value | None], timeout_s: float) -> Value:
    """Ask until the answer is truthy, and return it.

    Args:
        what: what is waited for, as the error's words.
        check: asked again and again; an AssertionError counts as "not yet" and becomes the error's reason.
        timeout_s: after this long it is an error.

    Raises:
        NotInTimeError: the answer did not come.
    """
    deadline_s = time.monotonic() + timeout_s
    reason = ""
    while True:
        try:
            if answer := check():
                return answer
        except NotInTimeError:
            raise
        except AssertionError as problem:
            reason = f": {problem}"
        if time.monotonic() > deadline_s:
            raise NotInTimeError(f"waited {timeout_s:g} s in vain for {what}{reason}")
        time.sleep(POLL_S)


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """End a run in order after SIGTERM, for instance in a cancelled CI job: fixtures stop what they have started.

    Later ones do nothing. ``timeout`` and ``make`` both send one, and the second would end the stopping.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Ports:
    """Free loopback ports, none handed out twice."""

    def __init__(self) -> None:
        self._given: set[int] = set()

    def free(self) -> int:
        while True:
            port = free_port()
            if port not in self._given:
                self._given.add(port)
                return port


class Process:
    """One child, in a session of its own: Ctrl-C reaches the tests alone, and they end it in order.

    Attributes:
        name: how messages call it; also its log's name.
        log: the file that takes its standard output and error.
    """

    def __init__(self, name: str, command: Sequence[str | Path], log: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as output:
            self._child = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def logged(self, text: str) -> bool:
        """Whether a line of the whole log has ``text``."""
        return text in self.log.read_text(errors="replace")

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:])

    def wait_for(self, what: str, check: Callable[[], Value | None], timeout_s: float) -> Value:
        """As the module's ``wait_for``; an end of the process ends the waiting, and the error shows its log."""

        def alive_and() -> Value | None:
            if not self.running:
                raise NotInTimeError(f"{self.name} ended with {self._child.returncode} before {what}")
            return check()

        try:
            return wait_for(f"{self.name}: {what}", alive_and, timeout_s)
        except NotInTimeError as problem:
            raise NotInTimeError(f"{problem}\nthe end of {self.log}:\n{self.tail()}") from None

    def ask_to_stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.running:
            self._child.send_signal(how)

    def wait(self, timeout_s: float) -> int:
        try:
            return self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise NotInTimeError(f"{self.name} still runs after {timeout_s:g} s\n{self.tail()}") from None

    def stop(self) -> int:
        self.ask_to_stop()
        try:
            return self.wait(_STOP_LIMIT_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL to its whole group, if it still runs."""
        if self.running:
            os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()


class Processes:
    """All children of a test run and the folder of their logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = Ports()
        self._started: list[Process] = []

    def start(self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> Process:
        """Start a child; the log of a second one by the same name gets a number."""
        count = sum(1 for process in self._started if process.name.partition("#")[0] == name)
        name = f"{name}#{count + 1}" if count else name
        process = Process(name, command, self.folder / f"{name}.log", environment or {})
        self._started.append(process)
        return process

    def named(self, name: str) -> Process:
        return next(process for process in self._started if process.name == name)

    def ended(self) -> list[Process]:
        """Return the children that do not run any more."""
        return [process for process in self._started if not process.running]

    def tails(self) -> list[tuple[str, str]]:
        """For each child that still runs: a title with the path of its log, and the log's end."""
        return [(f"{child.name}: {child.log}", child.tail()) for child in self._started if child.running]

    def stop_all(self) -> None:
        """End every child that is left, the last started first."""
        for process in reversed(self._started):
            process.ask_to_stop()
            with suppress(NotInTimeError):  # kube-apiserver waits for clients that no test needs
                process.wait(_LAST_LIMIT_S)
            process.kill()
