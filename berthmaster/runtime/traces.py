"""Traces for OpenTelemetry.

Traces are off unless a variable of the OpenTelemetry SDK names where to send them. Without it a span costs one
comparison. With it the SDK reads its own variables: sampling, headers, batches, limits.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from berthmaster.model.errors import InputError
from berthmaster.runtime.installation import extra_remedy
from berthmaster.version import __version__

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
