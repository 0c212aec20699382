"""What a process tells about its work: structured logs, one JSON object per line, and traces for OpenTelemetry.

Traces are off unless a variable of the OpenTelemetry SDK names where to send them. Without it a span costs one
comparison. With it the SDK reads its own variables: sampling, headers, batches, limits.
"""

import contextvars
import json
import logging
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from berthmaster.model.errors import InputError, printable_json
from berthmaster.runtime.clock import Clock, SystemClock, TokenBucket
from berthmaster.runtime.installation import extra_remedy
from berthmaster.version import __version__

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


if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PARENT: Final = "traceparent"
_NOTHING: Final = nullcontext()
_NO_HEADERS: Final[Mapping[str, str]] = {}
_tracer: "Tracer | None" = None


def start_traces(service: str) -> None:
    """Send spans of this process and its forks if a variable says where. Raises ``InputError`` without the extra."""
    named = next((each for each in _ENDPOINTS if os.environ.get(each)), None)
    if named is None or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - the same
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - the same
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - the same
    except ModuleNotFoundError:
        raise InputError(f"${named} is set, but traces need the extra 'traces': {extra_remedy('traces')}") from None
    name = os.environ.get("OTEL_SERVICE_NAME") or service
    provider = TracerProvider(resource=Resource.create({"service.name": name, "service.version": __version__}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    use_tracer(provider.get_tracer("berthmaster", __version__))


def use_tracer(tracer: "Tracer | None") -> None:
    global _tracer  # noqa: PLW0603 - one for the process, like a logger
    _tracer = tracer


def began_ns() -> int | None:
    """Return the time for the start of a span that is made later; None if there are no traces."""
    return None if _tracer is None else time.time_ns()


def span(
    name: str, parent: str | None = None, since_ns: int | None = None, **attributes: str
) -> AbstractContextManager[None]:
    """Return a context that is a span of the caller, or of a ``traceparent``. It may have begun at ``since_ns``."""
    return _NOTHING if _tracer is None else _span(_tracer, name, parent, since_ns, attributes)


def inner_span(name: str, **attributes: str) -> AbstractContextManager[None]:
    """Return a context that is a span if the caller has one. A request that belongs to no trace gets none."""
    return _NOTHING if _tracer is None or not trace_headers() else _span(_tracer, name, None, None, attributes)


def trace_headers() -> Mapping[str, str]:
    """Return the headers by which another service continues the trace of the caller."""
    if _tracer is None:
        return _NO_HEADERS
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - an extra

    found: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(found)
    return found


def exemplar() -> dict[str, str] | None:
    """Return the labels of an exemplar of a metric: the trace of the caller; None without one that is sampled."""
    parts = trace_headers().get(_PARENT, "").split("-")
    return {"trace_id": parts[1]} if parts[-1] == "01" else None


@contextmanager
def _span(
    tracer: "Tracer", name: str, parent: str | None, since_ns: int | None, attributes: Mapping[str, str]
) -> Iterator[None]:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - an extra

    context = TraceContextTextMapPropagator().extract({_PARENT: parent}) if parent else None
    with tracer.start_as_current_span(name, context, attributes=attributes, start_time=since_ns):
        if since_ns is not None:
            tracer.start_span("wait", start_time=since_ns).end()
        yield
