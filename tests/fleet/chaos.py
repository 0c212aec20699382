"""Random events on a fleet, held against the invariants (``make chaos DURATION=600 SEED=1``).

A seed makes the workloads and the events. After the last event all that was disturbed is brought back, and the fleet
must come to rest. Then each cluster is drained, which must end as ``berthmaster drain --dry-run`` said. At last each
decision on record is decided and explained again. A history with a violation is played again with fewer events.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from e2e.api import RefusedError
from e2e.control_plane import ControlPlane, crd_folder
from e2e.processes import NotInTimeError, sigterm_as_ctrl_c
from e2e.serving import COMMAND
from fleet.fleet import Driver, Fleet
from fleet.invariants import Invariants
from fleet.member import Pods
from fleet.modelled import Modelled
from fleet.observer import shown
from fleet.real_karmada import RealKarmada, binaries
from kube_store import JSON

from berthmaster.ledger.reader import LedgerReader
from berthmaster.ledger.records import HistoryRow, Query, RecordId
from berthmaster.model.binding import short_assignment
from berthmaster.model.move_refusal import Cause

NAMES: Final = ("m1", "m2", "m3")
REST_LIMIT_S: Final = 420.0
BRAKE: Final = {"enabled": True, "unhealthyPercent": 30, "minClusters": 2, "window": "1m", "settle": "20s"}
REBALANCE: Final = {"mode": "On", "after": "10s", "tolerance": "0%", "minGain": "0%"}
JOBS_MOVE: Final = {"selector": {"kinds": ["Job"]}, "failback": {"mode": "On"}, "drain": {"mode": "On"}}
STAY: Final = {Cause.JOB_DIVIDED.value, Cause.JOB_FINISHED.value}
OWN_PREEMPTION: Final = ("--controllers=binding-scheduler,preemption", "--feature-gates=PolicyPreemption=true")
PLAN_LIMIT_S: Final = 300.0
REPLAY_LIMIT_S: Final = 600.0
_CLUSTER_EVENTS: Final = (
    "kill", "kill", "freeze", "flap", "slow", "stuck", "failing", "crashing", "cordon", "drain", "drain", "forget",
)  # fmt: skip
_APP_EVENTS: Final = (
    "scale", "scale", "rollout", "rollout", "place", "rebalance", "unclaim", "delete", "preempt", "yield",
)  # fmt: skip
_KINDS: Final = (
    "Deployment", "StatefulSet", "DaemonSet", "Deployment", "StatefulSet", "Duplicated", "Job", "Deployment",
    "Deployment", "Deployment",
)  # fmt: skip
"""The kinds of ten workloads; Duplicated is a Deployment. Each fifth one has the strategy BreakBeforeMake."""
_PROCESS_EVENTS: Final = ("berthmaster", "karmada", "host")
_GROUPS: Final = (
    (("m1",), ("m2",)), (("m2",), ("m3",)), (("m1",), ("m2", "m3")), (("m1", "m2"), ("m3",)),
    (("m3",), ("m1",), ("m2",)), (("m1", "m2", "m3"),),
)  # fmt: skip


class Event(NamedTuple):
    """Something that happens.

    Attributes:
        at_s: when, in seconds after the workloads run.
        what: its name.
        subject: the cluster, the workload or the process.
        number: a number that the event may use.
    """

    at_s: float
    what: str
    subject: str
    number: int


class Workload(NamedTuple):
    """The arguments of ``Fleet.run``."""

    app: str
    replicas: int
    groups: tuple[tuple[str, ...], ...]
    kind: str
    strategy: str
    duplicated: bool


def workloads(seed: int, count: int) -> list[Workload]:
    chance = random.Random(seed)
    found = []
    for index in range(count):
        kind, once = _KINDS[index % len(_KINDS)], index % 5 == 4
        one_cluster = once or kind == "Job"
        found.append(
            Workload(
                f"w{index:02}",
                chance.randint(1, 4),
                chance.choice(_GROUPS[:2] if one_cluster else _GROUPS),
                "Deployment" if kind == "Duplicated" else kind,
                "BreakBeforeMake" if once else chance.choice(("", "" if kind == "Job" else "MakeBeforeBreak")),
                kind in ("Duplicated", "DaemonSet"),
            )
        )
    return found


def events(seed: int, duration_s: float, apps: Sequence[str]) -> list[Event]:
    """Return the events of a seed. A disturbance of a cluster ends before the next one begins."""
    chance = random.Random(f"{seed} events")
    found: list[Event] = []
    at_s = 0.0
    while at_s < duration_s:
        cluster, what = chance.choice(NAMES), chance.choice(_CLUSTER_EVENTS)
        lasts_s = chance.choice((4.0, 15.0, 40.0, 90.0))
        found.append(Event(at_s, what, cluster, chance.randint(1, 4)))
        found.append(Event(at_s + lasts_s, "recover", cluster, 0))
        at_s += lasts_s + chance.choice((1.0, 20.0, 60.0))
    at_s = 5.0
    while at_s < duration_s:
        found.append(Event(at_s, chance.choice(_APP_EVENTS), chance.choice(apps), chance.randint(1, 5)))
        at_s += chance.choice((1.0, 5.0, 15.0))
    at_s = 60.0
    while at_s < duration_s:  # seldom: a new leader begins no planned move for a minute
        found.append(Event(at_s, "process", chance.choice(_PROCESS_EVENTS), chance.randint(5, 25)))
        at_s += chance.choice((90.0, 180.0, 300.0))
    at_s = 100.0
    while at_s < duration_s:
        found += [Event(at_s, "limit", "quota", chance.randint(4, 9)), Event(at_s + 60.0, "unlimit", "quota", 0)]
        at_s += chance.choice((180.0, 300.0))
    return sorted(found)


class Chaos:
    """Plays events on a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._manifests: dict[str, JSON] = {}

    def play(self, what: Sequence[Workload], history: Sequence[Event]) -> list[tuple[float, str]]:
        fleet = self._fleet
        begin = len(fleet.observer.lines)
        fleet.berthmaster(*OWN_PREEMPTION, brake=BRAKE, rules=[JOBS_MOVE], rebalance=REBALANCE)
        for each in what:
            self._start(each)
        by_app = {each.app: each for each in what}
        with suppress(NotInTimeError):
            fleet.until("all workloads run", lambda: not any(map(fleet.unrest, by_app)))
        started_s = time.monotonic()
        for event in history:
            time.sleep(max(0.0, started_s + event.at_s - time.monotonic()))
            with suppress(RefusedError, KeyError, NotInTimeError):
                fleet.keep_berthmaster()
                self._do(event, by_app)
        with suppress(RefusedError):
            fleet.limit(None)
        for name in NAMES:
            self._do(Event(0.0, "recover", name, 0), by_app)
        for each in what:  # after an outage Karmada may finish a deletion later than the event waited
            if not fleet.complete(self._manifests[each.app]):
                self._again(each)
        problems = self._rest(by_app)
        if not problems:
            problems = [problem for name in NAMES for problem in self._drained_as_planned(name, by_app)]
        problems += recorded_otherwise(fleet)
        found = Invariants().read(fleet.observer.lines[begin:])
        return [*found, *((fleet.observer.now_s(), each) for each in problems)]

    def _start(self, each: Workload) -> None:
        self._manifests[each.app] = self._fleet.run(
            each.app, each.replicas, *each.groups,
            kind=each.kind, strategy=each.strategy, duplicated=each.duplicated,
        )  # fmt: skip

    def _do(self, event: Event, by_app: dict[str, Workload]) -> None:
        if event.what == "process":
            self._process(event.subject, event.number)
        elif event.subject == "quota":
            self._fleet.limit(str(event.number) if event.number else None)
        elif event.subject in by_app:
            self._change(event, by_app[event.subject])
        else:
            self._disturb(event)

    def _disturb(self, event: Event) -> None:
        fleet, name = self._fleet, event.subject
        match event.what:
            case "kill":
                fleet.kill(name)
            case "freeze":
                fleet.freeze(name)
            case "flap":
                fleet.flap(name, event.number, 1.0 if event.number > 2 else 35.0)
            case "forget":
                fleet.forget(name)
            case "cordon":
                fleet.cordon(name)
            case "drain":
                fleet.drain(name)
            case "recover":
                self._recover(name)
            case pods:
                fleet.treat(name, Pods(pods))

    def _change(self, event: Event, which: Workload) -> None:
        fleet, name, manifest = self._fleet, which.app, self._manifests[which.app]
        match event.what:
            case "scale" if which.kind != "DaemonSet":
                fleet.edit(manifest, replicas=event.number)
            case "rollout":
                fleet.edit(manifest, template={"metadata": {"annotations": {"turn": str(time.monotonic())}}})
            case "place":
                fleet.place(name, *(which.groups if event.number % 2 else which.groups[::-1]))
            case "preempt":
                fleet.preempt(manifest, *which.groups[::-1])
            case "yield":
                fleet.yield_to_others(name)
            case "rebalance":
                fleet.rebalance(manifest, f"{name}-{time.monotonic_ns()}")
            case "unclaim" | "delete" as what:
                for each in (None, manifest)[: 1 if what == "unclaim" else 2]:
                    with suppress(RefusedError):  # it may be gone already
                        fleet.remove(name, each)
                time.sleep(2.0)
                self._again(which)

    def _again(self, each: Workload) -> None:
        """Create what is missing of a workload and its policy, once the former ones are gone."""
        for _ in range(30):
            with suppress(RefusedError):
                self._start(each)
                return
            time.sleep(1.0)

    def _recover(self, name: str) -> None:
        fleet = self._fleet
        if not fleet.members[name].up:
            fleet.recover(name)
        if fleet.members[name].pods is not Pods.NORMAL:
            fleet.treat(name, Pods.NORMAL)
        fleet.cordon(name, on=False)
        fleet.rejoin(name)
        fleet.drain(name, on=False)

    def _process(self, name: str, number: int) -> None:
        fleet = self._fleet
        if name == "host":
            fleet.lose_host(number)
        elif name == "karmada":
            fleet.restart_karmada()
        else:
            fleet.kill_berthmaster()
            fleet.start_berthmaster()

    def _rest(self, by_app: dict[str, Workload]) -> list[str]:
        """Wait until nothing moves or wants to move, and return what still does."""
        problems: list[str] = []

        def rests() -> bool:
            self._fleet.keep_berthmaster()
            problems[:] = filter(None, map(self._fleet.unrest, by_app))
            # After Released, a failback may follow. A Job that clusters share, or that has finished, never returns.
            found = [(app, self._fleet.move(app)) for app in by_app]
            waiting = [each for each in found if each[1].get("phase") and each[1].get("cause") not in STAY]
            problems.extend(f"{app}: {move}" for app, move in waiting)
            return not problems

        with suppress(NotInTimeError):
            self._fleet.until("the rest", rests, REST_LIMIT_S)
        return problems

    def _drained_as_planned(self, name: str, by_app: dict[str, Workload]) -> list[str]:
        fleet, different = self._fleet, dict[str, str]()
        before, planned = {app: fleet.assigned(app) for app in by_app}, drain_plan(fleet, name)

        def arrived() -> bool:
            fleet.keep_berthmaster()
            different.clear()
            for app in by_app:
                assigned, plan = short_assignment(fleet.assigned(app)), planned.get(app, "")
                if plan != f"would go to {assigned}" and (app in planned or assigned != short_assignment(before[app])):
                    different[app] = f"{app}: the drain of {name} ends at {assigned}, from {before[app]}: {plan}"
            return not different and not any(map(fleet.unrest, by_app))

        fleet.drain(name)
        with suppress(NotInTimeError):
            fleet.until("the planned drain", arrived, PLAN_LIMIT_S)
        problems = [*different.values()]
        fleet.drain(name, on=False)
        return problems + self._rest(by_app)


def drain_plan(fleet: Fleet, name: str) -> dict[str, str]:
    """Return where ``berthmaster drain --dry-run`` says that each application goes. Those that stay are left out."""
    command = [
        COMMAND, "drain", name, "--dry-run", f"--kubeconfig={fleet.host.kubeconfig}", "--lease-namespace=default",
        "--output=json",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    rows = [row for row in json.loads(done.stdout)["left"] if row["state"] == "moving"]
    return {row["workload"].rpartition("/")[2]: row["message"] for row in rows}


def recorded_otherwise(fleet: Fleet) -> list[str]:
    command = [COMMAND, "replay", "--check", f"--ledger={fleet.ledger}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=REPLAY_LIMIT_S, check=False)
    problems = [f"replay --check: {done.stdout[-1000:]}{done.stderr[-1000:]}"] if done.returncode else []
    reader, total = LedgerReader(fleet.ledger), 0
    for row in _decisions(reader):
        total += 1
        at_us = round(datetime.fromisoformat(row.time).timestamp() * 1e6)
        then = Query(row.namespace, row.resource_kind, row.name, until_us=at_us, decisions_only=True)
        found = reader.explain(then)
        if found.record != row or not found.reproduced:
            problems.append(f"explain --at {row.time}: {found.record} for {row}: {found.notes}")
        elif row.reason == "Success" and row.after != found.explanation.present:
            problems.append(f"explain --at {row.time}: {found.explanation} for {row.after}")
    sys.stdout.write(f"{total} decisions on record\n")
    return problems


def _decisions(reader: LedgerReader) -> Iterator[HistoryRow]:
    after: RecordId | None = None
    while True:
        rows, after = reader.page(Query(decisions_only=True), 500, after)
        yield from rows
        if after is None:
            return


def start(folder: Path) -> Fleet:
    karmada = binaries()
    crds = karmada or crd_folder()

    def driver(plane: ControlPlane) -> Driver:
        if karmada is not None:
            return RealKarmada(plane, karmada)
        return Modelled(plane, lambda plane: plane.install(crds))

    return Fleet(folder, NAMES, driver)


def shrunk(fleet: Fleet, what: Sequence[Workload], history: list[Event], times: int, folder: Path) -> list[Event]:
    """Play halves of a failing history while they fail, and return the shortest that fails."""
    for turn in range(1, times + 1):
        middle = len(history) // 2
        for name, half in (("later", history[middle:]), ("earlier", history[:middle])):
            shorter = [each._replace(at_s=each.at_s - half[0].at_s) for each in half]
            fleet.clear()
            if shorter and played(fleet, what, shorter, folder / f"half-{turn}-{name}.txt"):
                history = shorter
                break
        else:
            break
    return history


def played(fleet: Fleet, what: Sequence[Workload], history: Sequence[Event], file: Path) -> list[tuple[float, str]]:
    """Play a history, write its time line and its violations to a file, and return the violations."""
    begin, found = len(fleet.observer.lines), list[tuple[float, str]]()
    try:
        found = Chaos(fleet).play(what, history)
    finally:
        told = [*map(shown, fleet.observer.lines[begin:]), *(f"{at_s:8.2f}  {problem}" for at_s, problem in found)]
        file.write_text("\n".join(told) + "\n")
    return found


def main() -> int:
    """Play one seed; 1 if an invariant was violated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("DURATION", "600")))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED", "1")))
    parser.add_argument("--workloads", type=int, default=30)
    parser.add_argument("--folder", type=Path, default=None, help="where logs and time lines are put")
    parser.add_argument(
        "--shrink", type=int, default=int(os.environ.get("SHRINK", "2")), help="how often a failing history is halved"
    )
    chosen = parser.parse_args()
    folder = (chosen.folder or Path(tempfile.mkdtemp(prefix="chaos-"))).resolve()
    what = workloads(chosen.seed, chosen.workloads)
    history = events(chosen.seed, chosen.seconds, [each.app for each in what])
    sys.stdout.write(f"seed {chosen.seed}: {len(what)} workloads, {len(history)} events; {folder}\n")
    with sigterm_as_ctrl_c(), closing(start(folder / "run")) as fleet:
        found = played(fleet, what, history, folder / "timeline.txt")
        assert fleet.observer is not None
        for at_s, problem in found:
            sys.stdout.write(f"{at_s:8.2f}  {problem}\n")
        moves = sum("binding" in line and line["move"].get("phase") == "Released" for line in fleet.observer.lines)
        sys.stdout.write(f"{len(found)} violations, {moves} moves released\n")
        if found and chosen.shrink:
            for event in shrunk(fleet, what, history, chosen.shrink, folder):
                sys.stdout.write(f"  {event}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
