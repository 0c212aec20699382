"""Logs, their rate, and traces."""

import json
import logging
import subprocess
import sys
import threading

import pytest
from fake_clock import FakeClock
from spans import recorded, tree
from tables import cases

from berthmaster.controllers.binding_scheduler.reconciler import count_attempt
from berthmaster.model.errors import InputError
from berthmaster.runtime import logs
from berthmaster.runtime.metrics import own_exposition
from berthmaster.runtime.token_bucket import TokenBucket
from berthmaster.runtime.traces import began_ns, exemplar, inner_span, span, trace_headers
from berthmaster.scheduling.karmada.trigger import Trigger


class Records(logging.Handler):
    """Keeps what passes, formatted."""

    def __init__(self):
        super().__init__()
        self.setFormatter(logs.JSONFormatter())
        self.lines = []

    def emit(self, record):
        self.lines.append(json.loads(self.format(record)))


@pytest.fixture
def handler():
    return Records()


@pytest.fixture
def log(handler):
    logger = logging.getLogger("berthmaster.test.logs")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)
    logger.filters.clear()


@cases("text", {"control characters": "a\n\x1b[1m\x9b\u202e\u2028b", "a surrogate": "name \udc80"})
def test_a_line_is_printable_whatever_its_fields_contain(text):
    record = logging.LogRecord("x", logging.INFO, "", 0, text, (), None)
    record.fields = {"name": text, text: [text]}
    line = logs.JSONFormatter().format(record)
    assert line.isprintable()
    line.encode()
    assert json.loads(line)["message"] == json.loads(line)["name"] == text


def test_a_record_is_one_object_with_its_fields(log, handler):
    log.info("scheduled %s", "web", extra=logs.fields(group="first", replicas=3))
    [line] = handler.lines
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "berthmaster.test.logs",
        "message": "scheduled web",
        "group": "first",
        "replicas": 3,
    }


def test_an_exception_adds_its_trace(log, handler):
    try:
        int("broken")
    except ValueError:
        log.exception("failed")
    assert handler.lines[0]["trace"].endswith("ValueError: invalid literal for int() with base 10: 'broken'")


def test_bound_fields_hold_inside_the_block_only(log, handler):
    with logs.bound(reconcile_id="a", key="x"):
        with logs.bound(key="y"):
            log.info("inner", extra=logs.fields(step=1))
        log.info("outer")
    log.info("after")
    inner, outer, after = handler.lines
    assert (inner["reconcile_id"], inner["key"], inner["step"]) == ("a", "y", 1)
    assert (outer["reconcile_id"], outer["key"]) == ("a", "x")
    assert "reconcile_id" not in after


def test_a_burst_is_cut_and_the_next_record_says_how_many_were_dropped(log, handler):
    clock = FakeClock()
    log.addFilter(logs.BurstFilter(per_s=2, burst=3, clock=clock))
    for number in range(10):
        log.info("record %d", number)
    clock.pass_by(0.5)  # one token
    log.info("record 10")
    log.info("record 11")
    clock.pass_by(0.5)
    log.info("record 12")
    assert [line["message"] for line in handler.lines] == ["record 0", "record 1", "record 2", "record 10", "record 12"]
    assert [line.get("suppressed", 0) for line in handler.lines] == [0, 0, 0, 7, 1]


@pytest.mark.parametrize("level", [logging.WARNING, logging.ERROR])
def test_warnings_and_errors_always_pass_and_take_no_tokens(log, handler, level):
    log.addFilter(logs.BurstFilter(per_s=1, burst=1, clock=FakeClock()))
    for _ in range(5):
        log.log(level, "trouble")
    log.info("first")
    log.info("second")
    assert [line["message"] for line in handler.lines] == ["trouble"] * 5 + ["first"]


@pytest.mark.parametrize(("level", "shown"), [("info", False), ("debug", True)])
def test_the_steps_of_alembic_are_details(level, shown):
    # In a process of its own: configure changes the root logger.
    code = f"""
import logging
from berthmaster.runtime.logs import configure
configure({level!r})
print(logging.getLogger("alembic.runtime.migration").isEnabledFor(logging.INFO))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - ours
    assert found.stdout.strip() == str(shown)


def test_reconcile_ids_differ():
    assert len({logs.new_reconcile_id() for _ in range(100)}) == 100


def raising(error: BaseException):
    def call() -> None:
        raise error

    return call


def test_a_call_that_returns_logs_nothing(caplog):
    assert logs.log_exceptions(lambda: 3, logging.getLogger("test"), "%s failed", "it")
    assert not caplog.records


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), InputError("x"), OSError("x")], ids=repr)
def test_an_exception_of_a_call_is_logged_with_its_trace_and_not_raised(caplog, error):
    log = logging.getLogger("test")
    assert not logs.log_exceptions(raising(error), log, "%s failed", "it", kind="things", name="a")
    [record] = caplog.records
    assert record.message == "it failed"
    assert record.exc_info[1] is error
    assert record.fields == {"kind": "things", "name": "a"}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_an_exception_that_ends_a_process_is_raised(error):
    with pytest.raises(type(error)):
        logs.log_exceptions(raising(error), logging.getLogger("test"), "it failed")


def test_a_bucket_gives_a_burst_and_then_a_steady_rate():
    clock = FakeClock()
    bucket = TokenBucket(clock, per_s=10, burst=3)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    clock.pass_by(0.1)
    assert [bucket.take(), bucket.take()] == [True, False]
    clock.pass_by(60)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False], "it holds no more than the burst"


def test_a_bucket_reserves_tokens_in_advance_up_to_a_limit():
    bucket = TokenBucket(FakeClock(), per_s=10, burst=1)
    waits = [bucket.reserve(0.35) for _ in range(5)]
    assert waits[:4] == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert waits[4] is None
    assert bucket.reserve(0.45) == pytest.approx(0.4), "a refused reservation takes no token"


def test_a_bucket_counts_correctly_in_several_threads():
    bucket = TokenBucket(FakeClock(), per_s=1, burst=1000)
    taken = []

    def take() -> None:
        taken.extend(bucket.take() for _ in range(500))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == 1000


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_without_a_tracer_nothing_is_made():
    with span("outer"), inner_span("inner"):
        assert (dict(trace_headers()), exemplar(), began_ns()) == ({}, None, None)
    assert own_exposition()[0].startswith("text/plain")


def test_a_span_continues_the_trace_of_a_request_and_has_its_wait():
    with recorded() as spans:
        with inner_span("alone"):
            assert trace_headers() == {}
        with span("outer", PARENT, began_ns(), key="a"), inner_span("inner"):
            assert trace_headers()["traceparent"].split("-")[1] == PARENT.split("-")[1]
        (outer,) = [each for each in spans() if each.name == "outer"]
        assert tree(outer, spans()) == ["wait", "inner"]
        assert (len(spans()), outer.attributes) == (3, {"key": "a"})


def test_a_metric_has_the_trace_of_its_last_value():
    with recorded():
        with span("reconcile", PARENT):
            count_attempt("scheduled", Trigger.NONE, 0.01)
        content_type, text = own_exposition()
    assert content_type.startswith("application/openmetrics-text")
    assert f'# {{trace_id="{PARENT.split("-")[1]}"}} 0.01'.encode() in text
