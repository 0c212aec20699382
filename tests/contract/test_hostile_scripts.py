"""Hostile scripts in the process that runs them: each ends soon, none runs twice, and a command has a budget."""

import contextlib
import resource
import time

import pytest
from hostile_scripts import HOSTILE
from tables import cases

from berthmaster.interpreters import worker
from berthmaster.interpreters.lua import ExhaustedError, ScriptError
from berthmaster.interpreters.worker import CPU_S, SCRIPT_S, ScriptProcess

MARGIN_S = 10.0  # for a busy machine: without a limit, these scripts run for ever
HARMLESS = "function GetReplicas(obj) return obj.spec.size end"
OBJECT = {"spec": {"size": 3}}
FIRST = HOSTILE["an endless loop"]


def processor_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.fixture(scope="module")
def process():
    """A process for all hostile scripts: only a script that must be killed costs another start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "BUDGET_S", 1e9)
        with ScriptProcess() as run:
            yield run


@cases("script", HOSTILE)
def test_a_hostile_script_ends_soon(script, process):
    process("function F() end", "F", {})
    begun_s = time.monotonic()
    with contextlib.suppress(ScriptError):  # a few do no harm, and have a result
        process(script, "GetReplicas", OBJECT)
    assert time.monotonic() - begun_s < SCRIPT_S + MARGIN_S


@cases(
    "script",
    {"a library": "function GetReplicas() local s = ('x'):rep(1e6) while true do s:reverse() end end", "a loop": FIRST},
)
def test_the_processor_time_is_limited_by_the_kernel(script, monkeypatch):
    monkeypatch.setattr(worker, "SCRIPT_S", 60.0)
    before_s = processor_s()
    with ScriptProcess() as run, pytest.raises(ExhaustedError):
        run(script, "GetReplicas", OBJECT)
    assert processor_s() - before_s < CPU_S + MARGIN_S, "and the time to start"


def test_a_script_that_exceeded_a_limit_is_not_run_again():
    with ScriptProcess() as run:
        with pytest.raises(ExhaustedError):
            run(FIRST, "GetReplicas", OBJECT)
        begun_s = time.monotonic()
        for _ in range(1000):
            with pytest.raises(ExhaustedError, match="it is not run again"):
                run(FIRST, "GetReplicas", OBJECT)
        assert time.monotonic() - begun_s < MARGIN_S
        assert run(HARMLESS, "GetReplicas", OBJECT)[0] == 3


def test_a_script_that_fails_on_one_object_is_run_for_the_next():
    with ScriptProcess() as run:
        with pytest.raises(ScriptError, match="attempt to index"):
            run(HARMLESS, "GetReplicas", {})
        assert run(HARMLESS, "GetReplicas", OBJECT)[0] == 3


def test_all_scripts_of_a_command_share_a_budget(monkeypatch):
    budget_s = 1.5
    monkeypatch.setattr(worker, "BUDGET_S", budget_s)
    begun_s = time.monotonic()
    with ScriptProcess() as run:
        for number in range(50):
            slow = f"function GetReplicas() local s = ('x'):rep(1e6) while true do s:reverse() end end -- {number}"
            with pytest.raises(ExhaustedError):
                run(slow, "GetReplicas", OBJECT)
        with pytest.raises(ExhaustedError, match="took more than"):
            run(HARMLESS, "GetReplicas", OBJECT)
    assert time.monotonic() - begun_s < budget_s + SCRIPT_S + 2 * worker.START_S


@cases(
    ("body", "expected"),
    {
        "unpack": ("return select('#', unpack({1, 2, 3}))", 3),
        "rep": ("return #(('ab'):rep(3))", 6),
        "insert": ("local t = {1, 2} table.insert(t, 3) table.insert(t, 1, 0) return #t + t[1]", 4),
        "sort": ("local t = {3, 1, 2} table.sort(t) return t[1]", 1),
        "an order": ("local t = {1, 3, 2} table.sort(t, function(a, b) return a > b end) return t[1]", 3),
        "pcall": ("local ok, text = pcall(error, 'no') return ok and 1 or #text", 2),
        "gmatch": ("local n = 0 for w in ('a,b,c'):gmatch('[^,]+') do n = n + 1 end return n", 3),
        "gsub": ("return tonumber((('x=7'):gsub('x=', '')))", 7),
        "match": ("return (('size=12'):match('%d+')) + 0", 12),
    },
)
def test_functions_that_are_wrapped_do_what_they_did(body, expected):
    with ScriptProcess() as run:
        assert run(f"function GetReplicas() {body} end", "GetReplicas", OBJECT)[0] == expected
