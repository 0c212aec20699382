"""The standard streams: closed ones, full disks, and encodings without some characters."""

import codecs
import errno
import io
import os
import sys
from typing import Final, TextIO

_HANDLER: Final = "berthmaster.plain"
_PLAIN: Final = {
    "\u2192": "->", "\u2190": "<-", "\u2026": "...", "\u2013": "-", "\u2014": "-", "\u00d7": "x", "\u00b7": "*",
}  # fmt: skip


class _ClosedInput(io.RawIOBase):
    """The standard input of a process that was started without one."""

    def readable(self) -> bool:
        return True

    def readinto(self, _buffer: object) -> int:
        raise OSError(errno.EBADF, "standard input is closed")


def prepare_streams() -> None:
    """Make the standard streams usable: a read of a closed input fails, and each character has a form in the output."""
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_ClosedInput()))
    codecs.register_error(_HANDLER, _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not a closed one
            stream.reconfigure(errors=_HANDLER)


def discard(stream: TextIO | None) -> None:
    """Send what a stream still holds to the null device, so that Python reports no error on closing it."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Return a text for characters that the encoding does not have: a similar one, or the escape of JSON."""
    if not isinstance(error, UnicodeEncodeError):
        raise error

    def escaped(character: str) -> str:
        units = character.encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))

    missing = error.object[error.start : error.end]
    return "".join(_PLAIN.get(each) or escaped(each) for each in missing), error.end
