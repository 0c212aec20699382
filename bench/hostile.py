"""Measure what one hostile document may cost, and what others notice: ``make bench-hostile``.

The first table has the cost of each document of ``hostile_rows.py``: time, allocated bytes, and lines that run. The
second has a well-behaved client beside eight clients that send the worst documents without pause. In between are the
slowest hostile interpreter scripts.

Steps and bytes have limits that fail the program, because they do not depend on the machine. Times fail it with
``--strict`` only.
"""

import contextlib
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
import msgspec
from admission import reviews
from extender_service import kubeadmiral_requests
from hostile_measure import Measured
from hostile_rows import MIB, rows
from hostile_scripts import HOSTILE
from served import Server, post, reviewing, serving
from stress import TITLES, Watcher, beside, line, problems
from workloads import generated

from berthmaster.interpreters.lua import ScriptError
from berthmaster.interpreters.worker import ScriptProcess

MAX_MS, MAX_REFUSED_MS = 250, 50
MAX_P99_MS = 20
MAX_BYTES = 64 * MIB
MAX_LARGE_BYTES = 96 * MIB
"""For a request above ``LARGE_BYTES``. A process answers one of them at a time."""
LARGE_BYTES = 3 * MIB
MAX_STEPS = 1_000_000
"""Lines of the project that run. What C code does at once, such as an array of numpy, is one line: ``--strict``."""
MAX_REFUSED_STEPS = 150_000
MAX_SCRIPT_S, MAX_COMMAND_S = 3, 10
LIMITS_MIB = {"webhook": 320, "extender": 700}
"""The memory of all processes of a pod. The chart allows the webhook as much, and the extender 1024 MiB."""
_CAP = re.compile(r"at most", re.IGNORECASE)
_REFUSAL = re.compile(r'"allowed":false|"error":"[^"]|"Error":"[^"]')
_FOLDER = Path(__file__).parent


def measured(mode: str, only: str) -> Mapping[str, Measured]:
    """Return the cost of each row in a mode of ``hostile_measure.py``."""
    command = [sys.executable, str(_FOLDER / "hostile_measure.py"), mode, only]
    output = subprocess.run(command, check=True, capture_output=True).stdout  # noqa: S603 - this program
    found = [msgspec.json.decode(each, type=Measured) for each in output.splitlines()]
    return {each.what: each for each in found}


def result_of(cost: Measured) -> str:
    """Return how a document was answered. A refusal names the limit that the document exceeds."""
    if not cost.status:
        return "no answer"
    failed = cost.status >= 400 or _REFUSAL.search(cost.answer) is not None
    return "answered" if not failed else "refused" if _CAP.search(cost.answer) else "error"


def broken_limits(timed: Measured, counted: Measured, *, strict: bool) -> Iterator[str]:
    """Yield the limits that a document exceeds."""
    what = timed.what
    if not timed.status or not counted.status:
        yield f"{what}: no answer within a minute"
        return
    refused = result_of(timed) == "refused"
    steps, most_ms = (MAX_REFUSED_STEPS, MAX_REFUSED_MS) if refused else (MAX_STEPS, MAX_MS)
    most_bytes = MAX_LARGE_BYTES if timed.sent_bytes > LARGE_BYTES else MAX_BYTES
    if counted.steps > steps:
        yield f"{what}: {counted.steps:,} steps; at most {steps:,}"
    if timed.peak_bytes > most_bytes:
        yield f"{what}: {timed.peak_bytes / MIB:.0f} MiB; at most {most_bytes / MIB:.0f}"
    if strict and timed.seconds * 1e3 > most_ms:
        yield f"{what}: {timed.seconds * 1e3:.0f} ms; at most {most_ms}"


def cost_table(only: str, *, strict: bool) -> Iterator[str]:
    """Print the cost of each document, and yield the limits that are exceeded."""
    timed, counted = measured("time", only), measured("steps", only)
    print(f"{'document':<66} {'kB':>6} {'ms':>8} {'MiB':>6} {'kept':>6} {'steps':>11}  answer")
    for what, cost in timed.items():
        steps = counted[what].steps
        result = result_of(cost)
        print(
            f"{what:<66} {cost.sent_bytes / 1000:6.0f} {cost.seconds * 1e3:8.1f} {cost.peak_bytes / MIB:6.1f} "
            f"{cost.kept_bytes / MIB:6.1f} {steps:11,}  {result}"
        )
        yield from broken_limits(cost, counted[what], strict=strict)


def beside_the_worst(
    service: str, server: Server, good: Sequence[bytes], seconds: float, only: str, *, strict: bool
) -> Iterator[str]:
    """Print the figures of good requests alone and beside eight clients that send each of the documents in turn.

    Yields:
        What must not happen.
    """
    bad = [post(row.path, row.body()) for row in rows() if row.service == service and only in row.what]
    Watcher(server, good).figures(1.0)
    print(line(f"{service}: alone", Watcher(server, good).figures(seconds)), flush=True)
    if bad:
        what = f"{service}: beside eight hostile clients"
        figures = beside(["worst"], server, good, bad, seconds)
        print(line(what, figures), flush=True)
        yield from problems(what, figures, LIMITS_MIB[service])
        if strict and figures.p99 > MAX_P99_MS:
            yield f"{what}: p99 of good requests is {figures.p99:.0f} ms; at most {MAX_P99_MS}"


def beside_table(seconds: float, only: str, *, strict: bool) -> Iterator[str]:
    """Print the figures of good requests beside hostile ones, and yield what must not happen."""
    print(f"\n{TITLES}")
    fleet = next(each for each in generated(7) if len(each.clusters) == 1000)
    with reviewing() as server:
        yield from beside_the_worst("webhook", server, reviews(), seconds, only, strict=strict)
    with serving(fleet.clusters, "--workers=2") as server:
        good = kubeadmiral_requests("filter")
        yield from beside_the_worst("extender", server, good, seconds, only, strict=strict)


def script_table(only: str) -> Iterator[str]:
    """Print how long hostile interpreter scripts run, and yield the limits that are exceeded."""
    slowest = []
    for name, script in HOSTILE.items():
        if only not in name:
            continue
        with ScriptProcess() as run:
            run("function F() end", "F", {})
            begun_s = time.monotonic()
            with contextlib.suppress(ScriptError):
                run(script, "GetReplicas", {})
            slowest.append((time.monotonic() - begun_s, name))
    for seconds, name in sorted(slowest)[-5:]:
        print(f"script: {name:<60} {seconds * 1e3:8.0f} ms")
    yield from (f"script: {name}: {seconds:.1f} s" for seconds, name in slowest if seconds > MAX_SCRIPT_S)
    if not only:
        begun_s, used_s = time.monotonic(), processor_s()
        with ScriptProcess() as run:
            for script in HOSTILE.values():
                with contextlib.suppress(ScriptError):
                    run(script, "GetReplicas", {})
        seconds, used_s = time.monotonic() - begun_s, processor_s() - used_s
        print(f"script: {f'all {len(HOSTILE)} in one command':<60} {seconds * 1e3:8.0f} ms")
        if used_s > MAX_COMMAND_S:
            yield f"all scripts in one command: {used_s:.1f} s of a processor"


def processor_s() -> float:
    """Return the processor time of the processes that this one has waited for, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@click.command()
@click.option(
    "--seconds", default=5.0, show_default=True, help="The duration of a row of the second table; 0 omits it."
)
@click.option("--only", default="", help="Only documents whose name contains this text.")
@click.option("--strict", is_flag=True, help="Limit times, too. They depend on the machine.")
def main(*, seconds: float, only: str, strict: bool) -> None:
    """Print both tables. The status is 1 if a limit is exceeded."""
    found = [*cost_table(only, strict=strict), *script_table(only)]
    if seconds:
        found += beside_table(seconds, only, strict=strict)
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
