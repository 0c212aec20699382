import json
import logging
import threading

import pytest
from fake_clock import FakeClock
from fake_metrics import FakeMetrics
from waiting import LIMIT_S, wait_for

from berthmaster.controllers.controller import QueueController, Requeue
from berthmaster.controllers.metrics import ControllerLoad
from berthmaster.controllers.work_queue import WorkQueue
from berthmaster.model.errors import ApiError, BerthmasterError
from berthmaster.runtime.clock import Clock, SystemClock
from berthmaster.runtime.logs import JSONFormatter


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
        self.metrics = FakeMetrics()
        self.controller = QueueController("toy", reconciler, self.queue, self.metrics, clock or SystemClock())


@pytest.mark.parametrize(
    ("step", "results"),
    [
        pytest.param(None, ["success"], id="success"),
        pytest.param(Requeue(0.001), ["requeued", "success"], id="requeue"),
        pytest.param(ApiError(409, "Conflict", "x"), ["conflict", "success"], id="conflict"),
        pytest.param(ApiError(429, "", "x", 0.01), ["error", "success"], id="too many requests"),
        pytest.param(ApiError(0, "", "x"), ["error", "success"], id="no response"),
        pytest.param(BerthmasterError("x"), ["error", "success"], id="an expected error"),
        pytest.param(ZeroDivisionError(), ["crash", "success"], id="a crash"),
    ],
)
def test_the_results_of_a_key(step, results, caplog):
    caplog.set_level(logging.CRITICAL)
    running = Running(Doing(step))
    running.queue.add("a")
    running.controller.start()
    wait_for(lambda: len(running.metrics.calls_of("reconciled")) == len(results))
    running.controller.stop()
    calls = running.metrics.calls_of("reconciled")
    assert [call[:2] for call in calls] == [("toy", result) for result in results]
    assert all(seconds >= 0 for _, _, seconds in calls)


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
    assert [call[:2] for call in running.metrics.calls_of("reconciled")] == [("toy", "success")]


def test_stop_times_out():
    let_go, begun = threading.Event(), threading.Event()
    running = Running(Doing(lambda: begun.set() or (let_go.wait(LIMIT_S) and None)))
    running.queue.add("a")
    running.controller.start()
    assert begun.wait(LIMIT_S)
    running.controller.stop(timeout_s=0.1)
    assert not running.metrics.calls_of("reconciled"), "the reconcile still runs"
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
def test_a_dead_worker_is_counted():
    running = Running(Doing())

    def broken(*_: object) -> None:
        raise SystemExit

    running.metrics.reconciled = broken
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
    wait_for(lambda: len(running.metrics.calls_of("reconciled")) == 2)
    running.controller.stop()
    log.removeHandler(handler)
    first, second, third, fourth = [each["reconcile_id"] for each in lines]
    assert first == second != third == fourth


def test_retries_and_requeues_are_logged_with_their_wait(caplog):
    caplog.set_level(logging.DEBUG)
    running = Running(Doing(ApiError(0, "", "no response"), ApiError(409, "Conflict", "x"), Requeue(0.001)))
    running.queue.add("a")
    running.controller.start()
    wait_for(lambda: len(running.metrics.calls_of("reconciled")) == 4)
    running.controller.stop()
    assert [(each.levelname, each.getMessage(), each.fields) for each in caplog.records] == [
        ("WARNING", "toy: reconcile failed, will be retried: no response", {"key": "a", "retry_s": 0.001}),
        ("DEBUG", "toy: reconcile failed, will be retried: x", {"key": "a", "retry_s": 0.002}),
        ("DEBUG", "toy: requeued", {"key": "a", "after_s": 0.001}),
    ]
