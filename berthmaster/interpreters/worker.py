"""A process that runs interpreter scripts, so that no script can harm the command.

The process answers one JSON line for each JSON line. The kernel limits its memory and its processor time for one
script, and lets it open no file, no connection and no process. If it ends or does not answer in time, the next call
starts another one. A script that exceeded a limit is not run again, and all scripts of a command share a budget of
time.
"""

import importlib.util
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import IO, Any, Final, Self

import msgspec

from berthmaster.interpreters.lua import ExhaustedError, ScriptError
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError

START_S: Final = 10.0
"""The longest time until the process is ready."""
SCRIPT_S: Final = 2.5
CPU_S: Final = 1.0
"""The processor time of one call, after which the kernel ends the process."""
BUDGET_S: Final = 7.0
"""The time of all calls of a command: the processor time of calls that were answered, the whole time of others."""
_MEMORY_BYTES: Final = 2 * 2**30
"""The address space of the process, which is larger than what it uses."""
_MAX_LINE_BYTES: Final = 64 * 2**20
_COMMAND: Final = "from berthmaster.interpreters.worker import serve; serve()"
_ENDED: Final = "needs too much memory or time"
_SPENT: Final = (
    f"was not run: the scripts of this command took more than {BUDGET_S:g} s together; name the field of the replicas "
    "with --replica-path"
)


class ScriptRequest(msgspec.Struct):
    script: str
    name: str
    argument: dict[str, Any]


class ScriptReply(msgspec.Struct, omit_defaults=True):
    results: tuple[Any, Any] = (None, None)
    problem: str | None = None
    exhausted: bool = False
    seconds: float = 0.0


def is_available() -> bool:
    return importlib.util.find_spec("lupa") is not None


class ScriptProcess:
    """Runs scripts in another process, which starts with the first one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._exhausted: dict[str, str] = {}
        self._left_s = BUDGET_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def __call__(self, script: str, name: str, argument: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return two results of a function of a script. Raises ``ScriptError``, or ``ExhaustedError`` at a limit."""
        if script in self._exhausted:
            raise ExhaustedError(self._exhausted[script])
        if self._left_s <= 0:
            raise ExhaustedError(_SPENT)
        stdin, stdout = self._pipes()
        begun_s = time.monotonic()
        try:
            stdin.write(msgspec.json.encode(ScriptRequest(script, name, dict(argument))) + b"\n")
            stdin.flush()
            line = _line(stdout, min(SCRIPT_S, self._left_s))
        except OSError:
            line = b""
        try:
            reply = decode_json(ScriptReply, line)
        except FieldError:  # a part of a line, or nothing
            self._end()
            reply = ScriptReply(problem=_ENDED, exhausted=True, seconds=time.monotonic() - begun_s)
        self._left_s -= reply.seconds
        if reply.problem is None:
            return reply.results
        if not reply.exhausted:
            raise ScriptError(reply.problem)
        self._exhausted[script] = f"{reply.problem}; it is not run again"
        raise ExhaustedError(reply.problem)

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """Return standard input and output of the process; start it if it does not run."""
        if self._process is None:
            begun_s, first = time.monotonic(), not self._exhausted
            self._process = subprocess.Popen(  # noqa: S603 - a fixed command
                [sys.executable, "-I", "-c", _COMMAND],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
            )  # fmt: skip
            ready = self._process.stdout is not None and _line(self._process.stdout, START_S)
            self._left_s -= 0 if first else time.monotonic() - begun_s
            if not ready:
                self._end()
                raise ScriptError(f"the process of the scripts was not ready within {START_S:g} s")
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise ScriptError("the process of the scripts has no pipes")
        return stdin, stdout

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.wait()


def serve() -> None:
    from berthmaster.interpreters.lua import KUBE  # noqa: PLC0415 - only the process needs Lua
    from berthmaster.interpreters.sandbox import Sandbox  # noqa: PLC0415

    sandbox = Sandbox(KUBE)
    sandbox.call("function F() end", "F", {})  # whatever is imported late must be there before the limits
    limits = {
        resource.RLIMIT_AS: _MEMORY_BYTES, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 0, resource.RLIMIT_NPROC: 0,
    }  # fmt: skip
    for what, limit in limits.items():
        resource.setrlimit(what, (limit, limit))
    sys.stdout.buffer.write(b"ready\n")
    sys.stdout.buffer.flush()
    for line in sys.stdin.buffer:
        # Nothing catches the signal of this timer: the kernel ends the process, whatever Lua does.
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        begun_s = time.process_time()
        request = decode_json(ScriptRequest, line)
        try:
            reply = ScriptReply(sandbox.call(request.script, request.name, request.argument))
        except ScriptError as error:
            reply = ScriptReply(problem=str(error), exhausted=isinstance(error, ExhaustedError))
        reply.seconds = time.process_time() - begun_s
        sys.stdout.buffer.write(msgspec.json.encode(reply) + b"\n")
        sys.stdout.buffer.flush()
        signal.setitimer(signal.ITIMER_PROF, 0)


def _line(stdout: IO[bytes], within_s: float) -> bytes:
    """Read one line; an incomplete one if the process ends, does not answer in time, or answers too much."""
    line, until_s = b"", time.monotonic() + within_s
    while not line.endswith(b"\n") and len(line) < _MAX_LINE_BYTES:
        ready, _, _ = select.select([stdout], [], [], max(0.0, until_s - time.monotonic()))
        chunk = stdout.read(2**16) if ready else b""
        if not chunk:
            break
        line += chunk
    return line
