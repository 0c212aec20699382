"""The standard streams: closed ones, full disks, and encodings without some characters."""

import codecs
import errno
import io
import os
import sys
from typing import Final, TextIO

_HANDLER: Final = "berthmaster.plain"
_PLAIN: Final = {
    "\u2192": "->",
    "\u2190": "<-",
    "\u2026": "...",
    "\u2013": "-",
    "\u2014": "-",
    "\u00d7": "x",
    "\u00b7": "*",
}
_BEYOND_BMP: Final = 0xFFFF


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
    missing = error.object[error.start : error.end]
    return "".join(_PLAIN.get(each) or _escaped(each) for each in missing), error.end


def _escaped(character: str) -> str:
    code = ord(character)
    if code <= _BEYOND_BMP:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
