"""Spans that code under test makes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from berthmaster.runtime.traces import use_tracer


@contextmanager
def recorded() -> Iterator[Callable[[], Sequence[ReadableSpan]]]:
    """Record spans until the end of the block. The value returns those that have ended."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    use_tracer(provider.get_tracer("test"))
    try:
        yield exporter.get_finished_spans
    finally:
        use_tracer(None)


def tree(root: ReadableSpan, spans: Sequence[ReadableSpan]) -> list[str]:
    """Return the names of the spans directly below a span, by their start."""
    below = [each for each in spans if each.parent is not None and each.parent.span_id == root.context.span_id]
    return [each.name for each in sorted(below, key=lambda each: each.start_time)]
