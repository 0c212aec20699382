"""Spans, what other services get of them, and exemplars. Nothing of it is there without a tracer."""

from spans import recorded, tree

from berthmaster.controllers.binding_scheduler.metrics import SchedulingMetrics
from berthmaster.runtime import traces
from berthmaster.runtime.metrics import own_exposition
from berthmaster.scheduling.karmada.trigger import Trigger

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_without_a_tracer_nothing_is_made():
    with traces.span("outer"), traces.inner_span("inner"):
        assert (dict(traces.headers()), traces.exemplar(), traces.began_ns()) == ({}, None, None)
    assert own_exposition()[0].startswith("text/plain")


def test_a_span_continues_the_trace_of_a_request_and_has_its_wait():
    with recorded() as spans:
        with traces.inner_span("alone"):
            assert traces.headers() == {}
        with traces.span("outer", PARENT, traces.began_ns(), key="a"), traces.inner_span("inner"):
            assert traces.headers()["traceparent"].split("-")[1] == PARENT.split("-")[1]
        (outer,) = [each for each in spans() if each.name == "outer"]
        assert tree(outer, spans()) == ["wait", "inner"]
        assert (len(spans()), outer.attributes) == (3, {"key": "a"})


def test_a_metric_has_the_trace_of_its_last_value():
    with recorded():
        with traces.span("reconcile", PARENT):
            SchedulingMetrics().attempted("scheduled", Trigger.NONE, 0.01)
        content_type, text = own_exposition()
    assert content_type.startswith("application/openmetrics-text")
    assert f'# {{trace_id="{PARENT.split("-")[1]}"}} 0.01'.encode() in text
