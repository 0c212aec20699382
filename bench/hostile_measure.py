"""Measure the rows of ``make bench-hostile`` one by one: time and bytes, or the lines that run.

As a program, ``hostile_measure.py time|steps`` prints one JSON object for each row. Every row runs in a child process
of its own, so that no row leaves memory or caches to the next. A row that takes too long is ended.
"""

import gc
import itertools
import logging
import os
import signal
import sys
import time
import tracemalloc
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
from hostile_rows import Row, cluster, rows

from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert
from berthmaster.model.errors import InputError
from berthmaster.runtime.clock import SystemClock
from berthmaster.scheduling.karmada.profile import karmada_profile
from extender.app import all_routes
from extender.metrics import ServiceMetrics
from extender.protocols.problem import Refusal, problem
from extender.protocols.request_size import sized
from extender.protocols.services import Call, Services
from extender.state.state import State
from webhook.admission.settings import AdmissionSettings, WebhookMode
from webhook.reviewer import Reviewer

MAX_S = 60
MAX_ADDRESS_BYTES = 8 * 2**30
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_PROJECT = str(Path(__file__).resolve().parent.parent)

Answer = tuple[int, bytes]
Work = Callable[[], Answer]


class Measured(msgspec.Struct, frozen=True):
    """What one row costs.

    Attributes:
        what: the name of the row.
        sent_bytes: the size of its request.
        status: the HTTP status of the answer; 0 if there was none.
        answer: the start of the answer.
        seconds: the time of one call, without any counter.
        peak_bytes: the most bytes allocated at one time.
        kept_bytes: the bytes that stay allocated.
        steps: the lines of the project's code that ran, each pass of a loop on its own.
    """

    what: str
    sent_bytes: int = 0
    status: int = 0
    answer: str = ""
    seconds: float = 0.0
    peak_bytes: int = 0
    kept_bytes: int = 0
    steps: int = 0


def main() -> None:
    """Print the measurements."""
    mode, only = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    works = _works()
    gc.collect()
    for row in rows():
        if only in row.what:
            print(_in_a_child(lambda row=row: _measured(mode, row, works)) or _line(Measured(row.what)), flush=True)


def _in_a_child(work: Callable[[], str]) -> str:
    """Return the text that the work returns in a child process; empty if the child ends early."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(MAX_S)
        with os.fdopen(sending, "w") as out:
            out.write(work())
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving) as text:
        found = text.read()
    os.waitpid(child, 0)
    return found


def _measured(mode: str, row: Row, works: "Mapping[str, Callable[[Row, bytes], Work]]") -> str:
    body = row.body()
    work = works[row.service](row, body)
    if mode == "steps":
        steps, (status, answer) = _counted(lambda: _repeated(work, row.times))
        return _line(Measured(row.what, len(body), status, _start(answer), steps=steps // row.times))
    start = time.perf_counter()
    status, answer = _repeated(work, row.times)
    seconds = (time.perf_counter() - start) / row.times
    shown = _start(answer)
    work = works[row.service](row, body)
    tracemalloc.start(1)
    before = tracemalloc.get_traced_memory()[0]
    _repeated(work, row.times)
    peak = tracemalloc.get_traced_memory()[1] - before
    del answer
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0] - before
    return _line(Measured(row.what, len(body), status, shown, seconds, peak, kept))


def _counted(work: Work) -> tuple[int, Answer]:
    """Return how many lines of the project run during the work. The number does not depend on the machine."""
    lines = itertools.count()

    def inside(_frame: FrameType, event: str, _argument: object) -> "Callable[..., Any]":
        if event == "line":
            next(lines)
        return inside

    def entered(frame: FrameType, _event: str, _argument: object) -> "Callable[..., Any] | None":
        return inside if frame.f_code.co_filename.startswith(_PROJECT) else None

    sys.settrace(entered)
    try:
        answer = work()
    finally:
        sys.settrace(None)
    return next(lines), answer


def _repeated(work: Work, times: int) -> Answer:
    answer = work()
    for _ in range(times - 1):
        answer = work()
    return answer


def _start(answer: bytes) -> str:
    return answer[:2000].decode(errors="replace")


def _line(measured: Measured) -> str:
    return msgspec.json.encode(measured).decode()


def _works() -> "Mapping[str, Callable[[Row, bytes], Work]]":
    """Return how each service prepares the work on a row."""
    log = logging.getLogger("bench")
    log.setLevel(logging.CRITICAL)
    logging.getLogger("berthmaster").setLevel(logging.CRITICAL)
    metrics = ServiceMetrics()

    def review(row: Row, body: bytes) -> Work:
        reviewer = Reviewer(AdmissionSettings(mode=WebhookMode.STANDALONE))

        def work() -> Answer:
            reply: Any = reviewer.answer(row.path, "application/json", body)
            return reply.status, reply.body

        return work

    def extend(row: Row, body: bytes) -> Work:
        state = State(karmada_profile())
        with state.updating(_NOW) as cache:
            for number in range(row.fleet):
                cache.apply_cluster(convert(Cluster, cluster(number, 50)))
        services = Services(state, metrics, log, SystemClock())
        (route,) = [each for each in all_routes() if (each.method, each.path) == ("POST", row.path)]

        def work() -> Answer:
            call = Call("bench", time.monotonic() + 3600, body)
            try:
                with sized(services, call, body, brings_fleet=route.brings_fleet):
                    reply = route.handler(services, call)
            except Refusal as refusal:
                reply = route.refuse(problem(refusal.status, refusal.detail))
            except InputError as error:
                reply = route.refuse(problem(400, str(error)))
            return reply.status, reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)

        return work

    return {"webhook": review, "extender": extend}


if __name__ == "__main__":
    main()
