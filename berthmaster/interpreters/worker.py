"""A process that runs interpreter scripts, so that no script can harm the command.

The process answers one JSON line for each JSON line. Its memory, its processor time for one script and its files are
limited. If it ends or does not answer in time, the next call starts another one.
"""

import importlib.util
import resource
import select
import subprocess
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import IO, Any, Final, Self

import msgspec

from berthmaster.interpreters.script_error import ScriptError

_TIMEOUT_S: Final = 30
_MEMORY_BYTES: Final = 2 * 2**30
"""The address space of the process, which is larger than what it uses."""
_MAX_LINE_BYTES: Final = 64 * 2**20
_COMMAND: Final = "from berthmaster.interpreters.worker import serve; serve()"


class ScriptRequest(msgspec.Struct):
    """A function of a script to call, and its argument."""

    script: str
    name: str
    argument: dict[str, Any]


class ScriptReply(msgspec.Struct, omit_defaults=True):
    """The first two results, or the problem of the script."""

    results: tuple[Any, Any] = (None, None)
    problem: str | None = None


def is_available() -> bool:
    """Return whether Lua is installed."""
    return importlib.util.find_spec("lupa") is not None


class ScriptProcess:
    """Runs scripts in another process, which starts with the first one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def __call__(self, script: str, name: str, argument: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the first two results of a function of a script.

        Raises:
            ScriptError: the script fails, exceeds a limit, or ends the process.
        """
        stdin, stdout = self._pipes()
        try:
            stdin.write(msgspec.json.encode(ScriptRequest(script, name, dict(argument))) + b"\n")
            stdin.flush()
            line = _answer(stdout)
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            self._end()
            raise ScriptError("needs too much memory or time")
        reply = msgspec.json.decode(line, type=ScriptReply)
        if reply.problem is not None:
            raise ScriptError(reply.problem)
        return reply.results

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """Return standard input and output of the process; start it if it does not run."""
        if self._process is None:
            self._process = subprocess.Popen(  # noqa: S603 - a fixed command
                [sys.executable, "-I", "-c", _COMMAND],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
            )  # fmt: skip
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
    """Answer the requests of standard input until it ends."""
    from berthmaster.interpreters.lua import KUBE  # noqa: PLC0415 - only the process needs Lua
    from berthmaster.interpreters.sandbox import Sandbox  # noqa: PLC0415

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    sandbox = Sandbox(KUBE)
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line, type=ScriptRequest)
        try:
            reply = ScriptReply(sandbox.call(request.script, request.name, request.argument))
        except ScriptError as error:
            reply = ScriptReply(problem=str(error))
        sys.stdout.buffer.write(msgspec.json.encode(reply) + b"\n")
        sys.stdout.buffer.flush()


def _answer(stdout: IO[bytes]) -> bytes:
    """Read one line; an incomplete one if the process ends, does not answer in time, or answers too much."""
    line = b""
    while not line.endswith(b"\n") and len(line) < _MAX_LINE_BYTES:
        ready, _, _ = select.select([stdout], [], [], _TIMEOUT_S)
        chunk = stdout.read(2**16) if ready else b""
        if not chunk:
            break
        line += chunk
    return line
