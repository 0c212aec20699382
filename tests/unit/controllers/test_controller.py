"""Controllers, their queue and their health."""

import json
import logging
import threading
from collections import Counter

import msgspec
import pytest
from fake_clock import FakeClock
from fake_metrics import reconciles
from kube_in_memory import ScriptedClient
from tables import cases
from waiting import LIMIT_S, wait_for

from berthmaster.controllers import controller
from berthmaster.controllers.controller import QueueController, Requeue
from berthmaster.controllers.metrics import ControllerLoad, stale_s
from berthmaster.controllers.run import STUCK_S, ProcessHealth
from berthmaster.controllers.work_queue import WorkQueue
from berthmaster.kube.informer import Informer
from berthmaster.kube.requests import Collection
from berthmaster.kube.source_check import UNCONFIRMED_S, SourceCheck
from berthmaster.model.errors import ApiError, BerthmasterError
from berthmaster.runtime.clock import Clock, SystemClock
from berthmaster.runtime.logs import JSONFormatter
from berthmaster.serving.probes import Readiness


class Doing:
    """A reconciler that runs the steps of the test in order."""

    def __init__(self, *steps) -> None:
        self.steps = list(steps)
        self.keys: list[str] = []

    def reconcile(self, key: str) -> Requeue | None:
        self.keys.append(key)
        step = self.steps.pop(0) if self.steps else None
        if isinstance(step, Exception):
            raise step
        return step() if callable(step) else step


class Running:
    def __init__(self, reconciler: Doing, clock: Clock | None = None) -> None:
        self.queue: WorkQueue[str] = WorkQueue(SystemClock(), first_wait_s=0.001)
        self._reconciles = reconciles("toy")
        self.controller = QueueController("toy", reconciler, self.queue, clock or SystemClock())

    @property
    def results(self) -> Counter[str]:
        return self._reconciles.results


@cases(
    ("step", "results"),
    {
        "success": (None, ["success"]),
        "requeue": (Requeue(0.001), ["requeued", "success"]),
        "conflict": (ApiError(409, "Conflict", "x"), ["conflict", "success"]),
        "too many requests": (ApiError(429, "", "x", 0.01), ["error", "success"]),
        "no response": (ApiError(0, "", "x"), ["error", "success"]),
        "an expected error": (BerthmasterError("x"), ["error", "success"]),
        "a crash": (ZeroDivisionError(), ["crash", "success"]),
    },
)
def test_the_results_of_a_key(step, results, caplog):
    caplog.set_level(logging.CRITICAL)
    running = Running(Doing(step))
    running.queue.add("a")
    running.controller.start()
    wait_for(lambda: running.results.total() == len(results))
    running.controller.stop()
    assert running.results == Counter(results)


def test_stop_finishes_running_reconciles_and_starts_no_others():
    let_go, begun, finished = threading.Event(), threading.Event(), []

    def slowly() -> None:
        begun.set()
        let_go.wait(LIMIT_S)
        finished.append("a")

    running = Running(Doing(slowly))
    running.queue.add("a")
    running.queue.add("b")
    running.controller.start()
    assert begun.wait(LIMIT_S)
    threading.Timer(0.1, let_go.set).start()
    running.controller.stop()
    assert finished == ["a"]
    assert running.results == {"success": 1}


def test_stop_times_out():
    let_go, begun = threading.Event(), threading.Event()
    running = Running(Doing(lambda: begun.set() or (let_go.wait(LIMIT_S) and None)))
    running.queue.add("a")
    running.controller.start()
    assert begun.wait(LIMIT_S)
    running.controller.stop(timeout_s=0.1)
    assert not running.results, "the reconcile still runs"
    let_go.set()


def test_the_load_has_the_queue_length_and_the_oldest_reconcile():
    let_go, begun = threading.Event(), threading.Event()
    clock = FakeClock()
    running = Running(Doing(lambda: begun.set() or (let_go.wait(LIMIT_S) and None)), clock)
    assert running.controller.load() == ControllerLoad()
    for key in "abc":
        running.queue.add(key)
    running.controller.start()
    assert begun.wait(LIMIT_S)
    clock.pass_by(7)
    assert running.controller.load() == ControllerLoad(waiting=2, longest_s=7.0)
    let_go.set()
    wait_for(lambda: running.controller.load() == ControllerLoad())
    running.controller.stop()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_worker_is_counted(monkeypatch):
    running = Running(Doing())

    def broken(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(controller, "count_reconcile", broken)
    running.queue.add("a")
    running.controller.start()
    wait_for(lambda: running.controller.load().dead_workers == 1)
    running.controller.stop()
    assert running.controller.load().dead_workers == 0


def test_all_records_of_a_reconcile_carry_its_id_and_those_of_others_another():
    log, lines = logging.getLogger("berthmaster.test_controller"), []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(json.loads(JSONFormatter().format(record)))
    log.addHandler(handler)
    log.setLevel(logging.INFO)

    def step() -> None:
        log.info("first")
        log.info("second")

    running = Running(Doing(step, step))
    running.queue.add("a")
    running.queue.add("b")
    running.controller.start()
    wait_for(lambda: running.results.total() == 2)
    running.controller.stop()
    log.removeHandler(handler)
    first, second, third, fourth = [each["reconcile_id"] for each in lines]
    assert first == second != third == fourth


def test_retries_and_requeues_are_logged_with_their_wait(caplog):
    caplog.set_level(logging.DEBUG)
    running = Running(Doing(ApiError(0, "", "no response"), ApiError(409, "Conflict", "x"), Requeue(0.001)))
    running.queue.add("a")
    running.controller.start()
    wait_for(lambda: running.results.total() == 4)
    running.controller.stop()
    assert [(each.levelname, each.getMessage(), each.fields) for each in caplog.records] == [
        ("WARNING", "toy: reconcile failed, will be retried: no response", {"key": "a", "retry_s": 0.001}),
        ("DEBUG", "toy: reconcile failed, will be retried: x", {"key": "a", "retry_s": 0.002}),
        ("DEBUG", "toy: requeued", {"key": "a", "after_s": 0.001}),
    ]


@pytest.fixture
def queue(clock) -> WorkQueue[str]:
    return WorkQueue(clock, first_wait_s=1.0, longest_wait_s=8.0)


def ready(queue: WorkQueue[str]) -> list[str]:
    return list(iter(lambda: queue.take(wait=False), None))


def test_keys_are_returned_in_order_and_once(queue):
    for key in "abcab":
        queue.add(key)
    assert len(queue) == 3
    assert ready(queue) == ["a", "b", "c"]
    assert len(queue) == 0


def test_a_taken_key_waits_until_it_is_done(queue):
    queue.add("a")
    assert queue.take() == "a"
    queue.add("a")
    assert ready(queue) == []
    queue.done("a")
    assert ready(queue) == ["a"]


def test_backoff_grows_until_forget(queue, clock):
    waits = []
    for _ in range(6):
        queue.retry("a")
        waits.append(queue.next_due_s())
        clock.pass_by(waits[-1])
        assert ready(queue) == ["a"]
        queue.done("a")
    assert waits == [1, 2, 4, 8, 8, 8]
    queue.forget("a")
    queue.retry("a")
    assert queue.next_due_s() == 1


def test_a_retry_waits_at_least_the_given_time(queue, clock):
    queue.retry("a", at_least_s=5)
    clock.pass_by(4.9)
    assert ready(queue) == []
    clock.pass_by(0.2)
    assert ready(queue) == ["a"]


def test_an_added_key_does_not_wait_for_its_backoff(queue, clock):
    queue.retry("a")
    queue.add("a")
    assert ready(queue) == ["a"]
    queue.done("a")
    clock.pass_by(10)
    assert ready(queue) == [], "the backoff is over"


def test_the_earliest_time_counts(queue, clock):
    queue.add_after("a", 5)
    queue.add_after("a", 2)
    queue.add_after("a", 7)
    clock.pass_by(2)
    assert ready(queue) == ["a"]
    queue.done("a")
    clock.pass_by(10)
    assert ready(queue) == []


def test_a_wait_of_zero_is_immediate(queue):
    queue.add_after("a", 0)
    assert ready(queue) == ["a"]


def test_a_closed_queue_releases_all_waiters_and_accepts_nothing(queue):
    found: list[str | None] = []
    waiting = [threading.Thread(target=lambda: found.append(queue.take())) for _ in range(3)]
    for thread in waiting:
        thread.start()
    queue.close()
    for thread in waiting:
        thread.join(LIMIT_S)
    assert found == [None] * 3
    queue.add("a")
    queue.add_after("b", 1)
    assert len(queue) == 0


def test_no_two_workers_have_the_same_key_and_no_change_is_lost():
    queue: WorkQueue[int] = WorkQueue(SystemClock())
    keys, lock = 20, threading.Lock()
    wanted, done, busy = [0] * keys, [0] * keys, set()

    def work() -> None:
        while (key := queue.take()) is not None:
            with lock:
                assert key not in busy
                busy.add(key)
                latest = wanted[key]
            done[key] = latest
            with lock:
                busy.discard(key)
            queue.done(key)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for worker in workers:
        worker.start()
    for number in range(5000):
        with lock:
            wanted[number % keys] += 1
        queue.add(number % keys)
    wait_for(lambda: done == wanted and not len(queue))
    queue.close()
    assert done == wanted


class Toy:
    name = "toy"

    def __init__(self) -> None:
        self.now = ControllerLoad()

    def load(self) -> ControllerLoad:
        return self.now

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Process:
    """A healthy process; the tests change its parts."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.toy = Toy()
        self.leading = True
        self.election = ""
        self.informers = [Informer(Collection.of("v1", plural), len, self.clock) for plural in ("bindings", "clusters")]
        for informer in self.informers:
            informer.replace({}.items())
            informer.mark_fresh()
        self.source = SourceCheck([each.collection for each in self.informers], self.clock)
        self.health = ProcessHealth(
            [self.toy], lambda: self.informers, lambda: self.leading, lambda: self.election, self.clock, self.source
        )


@pytest.fixture
def process() -> Process:
    return Process()


def test_a_healthy_process_is_alive_and_ready(process):
    assert process.health.dead() == ""
    assert process.health.readiness() == Readiness("", "leading")
    process.leading = False
    assert process.health.readiness() == Readiness("", "standby"), "a standby is ready as well"


@cases(
    ("load", "problem"),
    {
        "a long queue is healthy": (ControllerLoad(waiting=10_000), ""),
        "a slow reconcile is healthy": (ControllerLoad(longest_s=STUCK_S), ""),
        "a stuck reconcile": (ControllerLoad(longest_s=STUCK_S + 1), "toy: one reconcile has been running for 301 s"),
        "a dead worker": (ControllerLoad(dead_workers=1), "toy: 1 workers have ended"),
    },
)
def test_only_problems_that_a_restart_solves_fail_liveness(process, load, problem):
    process.toy.now = load
    assert process.health.dead() == problem
    assert not process.health.readiness().problem


def test_a_dead_election_fails_liveness(process):
    process.election = "the lease was looked at 40 s ago"
    assert process.health.dead() == "the lease was looked at 40 s ago"


def test_informers_that_are_not_synced_are_named(process):
    missing = Informer(Collection.of("v1", "policies"), len, process.clock)
    process.informers.append(missing)
    assert process.health.readiness().problem == "not synced: policies"
    missing.mark_stale("404 not found")
    assert process.health.readiness().problem == "not synced: policies (404 not found)"
    assert process.health.dead() == ""


def test_a_lost_watch_is_a_note(process):
    process.informers[0].mark_stale("no response")
    process.clock.pass_by(12)
    assert process.health.readiness() == Readiness("", "leading; bindings not watched for 12 s: no response")
    assert [stale_s(each, process.clock) for each in process.informers] == [12.0, 0.0]


def test_an_api_server_without_current_objects_is_a_note(process):
    process.clock.pass_by(UNCONFIRMED_S)
    process.source.check(ScriptedClient({}))  # it responds with 404
    ready = process.health.readiness()
    assert not ready.problem
    assert ready.note.startswith("leading; the API server does not return current objects; check it and its etcd: ")
    assert stale_s(process.source, process.clock) == UNCONFIRMED_S


def test_events_whose_handler_failed_are_a_note(process):
    process.informers[0].subscribe(lambda *_: 1 // 0)
    process.informers[0].put(("", "a"), msgspec.Raw(b"{}"))
    note = "leading; 1 events of bindings failed and will be handled again, see the log"
    assert process.health.readiness() == Readiness("", note)


def test_a_stopping_process_is_not_ready(process):
    process.health.stopping = True
    assert process.health.readiness() == Readiness("stopping")
