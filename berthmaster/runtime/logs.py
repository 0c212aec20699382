"""Structured logs, one JSON object per line."""

import contextvars
import json
import logging
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from berthmaster.model.errors import printable_json
from berthmaster.runtime.clock import Clock, SystemClock
from berthmaster.runtime.token_bucket import TokenBucket

LEVELS: Final = ("debug", "info", "warning", "error")
_MAX_MESSAGE_LENGTH: Final = 4096
_MAX_TRACE_LENGTH: Final = 16_384
_BOUND: Final[contextvars.ContextVar[Mapping[str, Any] | None]] = contextvars.ContextVar("bound_fields", default=None)


class JSONFormatter(logging.Formatter):
    """Format a record as one line of JSON: time, level, logger, message, fields of ``bound`` and of ``fields``."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:_MAX_MESSAGE_LENGTH],
        }
        line.update(_BOUND.get() or {})
        line.update(getattr(record, "fields", {}))
        if (suppressed := getattr(record, "suppressed", 0)) > 0:
            line["suppressed"] = suppressed
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)[-_MAX_TRACE_LENGTH:]
        try:
            return printable_json(msgspec.json.encode(line, enc_hook=str).decode())
        except UnicodeEncodeError:  # a lone surrogate, such as in the name of a file
            return json.dumps(line, default=str)


class BurstFilter(logging.Filter):
    """Limit the rate of debug and info records of a logger. Safe for several threads.

    Records above the rate are dropped and counted. The next record that passes carries the count as ``suppressed``.
    Warnings and errors always pass and take no share of the rate.
    """

    def __init__(self, per_s: float, burst: int, clock: Clock | None = None) -> None:
        super().__init__()
        self._bucket = TokenBucket(clock or SystemClock(), per_s, burst)
        self._suppressed = 0
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING:
            return True
        suppressed = self.take()
        if suppressed is None:
            return False
        record.suppressed = suppressed
        return True

    def take(self) -> int | None:
        """Take the share of one record. Return how many were dropped before it; None if it is to be dropped, too."""
        with self._lock:
            if not self._bucket.take():
                self._suppressed += 1
                return None
            suppressed, self._suppressed = self._suppressed, 0
            return suppressed


def configure(level: str) -> None:
    """Write records of a level (one of ``LEVELS``) and above to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    if level != "debug":
        logging.getLogger("alembic").setLevel(logging.WARNING)  # it logs a dozen lines whenever a ledger is opened


def fields(**values: object) -> dict[str, Any]:
    """Return the ``extra`` argument that gives one record these fields."""
    return {"fields": values}


@contextmanager
def bound(**values: object) -> Iterator[None]:
    """Add fields to every record that this thread logs inside the block. Blocks nest; the inner value wins."""
    token = _BOUND.set({**(_BOUND.get() or {}), **values})
    try:
        yield
    finally:
        _BOUND.reset(token)


def bound_fields() -> Mapping[str, Any]:
    return _BOUND.get() or {}


def new_reconcile_id() -> str:
    return uuid.uuid4().hex[:16]


def log_exceptions(
    call: Callable[[], object], log: logging.Logger, message: str, *arguments: str, **names: str
) -> bool:
    """Call ``call`` and log any exception with its traceback. Return False after an exception.

    This is the crash handler of threads that must continue. Use it only in the outermost function of a thread, where
    the next piece of work does not depend on the failed one. Catch expected errors by their class where they occur.
    """
    try:
        call()
    except Exception:  # an unexpected error must not end a thread that other threads depend on
        log.exception(message, *arguments, extra=fields(**names))
        return False
    return True
