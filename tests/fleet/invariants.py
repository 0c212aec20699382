"""What must hold in every time line of a fleet.

- A fall of the ready pods of an application below what it had is explained: they were in a cluster that was lost or
  whose pods failed just then. A planned move explains nothing.
- An application with BreakBeforeMake never has pods in two clusters, except after a failover from a lost cluster.
- Every move ends, and every outage ends.
- No application begins more than a few moves within some minutes, and at most two because one cluster flaps.

The ready pods of a duplicated application are those of its best copy: a planned move may leave a cluster if another
one keeps a copy.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fleet.member import FAIL_S, Pods
from kube_store import JSON

from berthmaster.model.move import UNDER_WAY

AFTERWARDS_S: Final = 30.0
"""How long after its end a disturbance explains a fall."""
NOTICED_S: Final = 30.0
"""How long a cluster is lost until Karmada knows. Until then a move counts on its copies, and may end with them."""
START_S: Final = 120.0
"""How long a user's change of a workload explains a fall."""
OUTAGE_LIMIT_S: Final = 240.0
"""How long an application may have fewer ready pods than it had, after the last disturbance of the fleet."""
MOVE_LIMIT_S: Final = 300.0
"""How long a move may be under way, after the last disturbance of the fleet."""
LOOP_MOVES: Final = 6
LOOP_S: Final = 180.0
FLAP_MOVES: Final = 2
_UNDER_WAY: Final = {each.value for each in UNDER_WAY}
_LOST: Final = frozenset({"kill", "freeze", "flap", "recover"})
_DISTURBS: Final = _LOST | {
    "start", "pods", "cordon", "uncordon", "drain", "undrain", "forget", "rejoin", "evict", "unevict", "limit",
    "unlimit", "edit", "place",
}  # fmt: skip
_AT_ONCE: Final = frozenset({"place", "rebalance", "delete", "preempt", "yield", "finish", "finalizer", "vanish"})
"""What happens to a workload that is no planned move."""


@dataclass
class App:
    """What is known of an application.

    Attributes:
        kind: the kind of its workload.
        twice: whether it may run twice.
        duplicated: whether each of its clusters has all replicas.
        wanted: its replicas.
        level: the ready pods that it had and must keep.
        before: its ready pods by cluster when it last had them.
        seen: its ready pods by cluster, as each cluster showed them last.
        used: the clusters with pods of it.
        leaving: the clusters whose Work is being deleted, or is gone. Karmada ends their pods when it can.
        fell_s: since when it has fewer; None if it does not.
        judged: whether the present fall was reported.
        late: whether the length of the present fall was reported.
        moving_s: since when a move is under way; None without.
        begun: when its last moves began.
        flaps: its moves by cluster that flaps, since that began.
        excused_s: until when what a user did explains a fall.
        rolls: when its rolling updates began. Each may take one pod in each cluster.
    """

    kind: str = "Deployment"
    twice: bool = True
    duplicated: bool = False
    wanted: int = 0
    level: int = 0
    before: dict[str, int] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    leaving: set[str] = field(default_factory=set)
    fell_s: float | None = None
    judged: bool = False
    late: bool = False
    moving_s: float | None = None
    begun: deque[float] = field(default_factory=deque)
    flaps: dict[str, int] = field(default_factory=dict)
    excused_s: float = 0.0
    rolls: list[float] = field(default_factory=list)


class Invariants:
    """Reads a time line, and collects the violations.

    Attributes:
        found: the violations, with their times.
    """

    def __init__(self) -> None:
        self.found: list[tuple[float, str]] = []
        self.apps: dict[str, App] = {}
        self._excused: dict[str, float] = {}
        self._lost_s: dict[str, float] = {}
        self._quiet_s = 0.0

    def read(self, lines: Iterable[JSON]) -> list[tuple[float, str]]:
        """Read all lines, and return the violations so far."""
        for line in lines:
            self._one(line)
        return self.found

    def _one(self, line: JSON) -> None:
        now_s = line["t"]
        if "event" in line:
            self._event(now_s, line)
        elif "binding" in line:
            self._binding(now_s, self.apps.setdefault(line["binding"], App()), line)
        elif "work" in line:
            leaving = self.apps.setdefault(line["work"], App()).leaving
            (leaving.discard if line["state"] == "alive" else leaving.add)(line["cluster"])
        elif "ready" in line:
            for name in {*line["lost"], *self._lost_s}:  # between two lines, too
                self._excuse(name, now_s)
            self._lost_s = {name: self._lost_s.get(name, now_s) for name in line["lost"]}
            for name, app in self.apps.items():
                self._counts(now_s, name, app, line["ready"].get(name, {}), line["there"].get(name, {}))
        for name, app in self.apps.items():
            self._durations(now_s, name, app)

    def _report(self, now_s: float, text: str) -> None:
        self.found.append((now_s, text))

    def _excuse(self, cluster: str, now_s: float) -> None:
        self._quiet_s = now_s
        self._excused[cluster] = max(self._excused.get(cluster, 0.0), now_s + AFTERWARDS_S)

    def _event(self, now_s: float, line: JSON) -> None:
        event = line["event"]
        if event == "run":
            twice = line["strategy"] != "BreakBeforeMake"
            again = line["app"] in self.apps  # pods of the deleted workload can still be there
            self.apps[line["app"]] = App(
                kind=line["kind"],
                twice=twice,
                duplicated=line["duplicated"],
                excused_s=now_s + START_S if again else 0.0,
            )
        if event in _DISTURBS:
            self._quiet_s = now_s
        app = self.apps.get(line.get("app", ""))
        if app is None:
            if "cluster" in line:
                self._cluster_event(now_s, event, line["cluster"], str(line.get("pods")))
            return
        app.flaps.clear()
        if event in _AT_ONCE or (event == "edit" and "replicas" in line):
            app.excused_s = now_s + START_S  # no planned move: another division acts at once
        elif event == "edit" and app.kind in ("StatefulSet", "DaemonSet"):
            app.rolls.append(now_s)

    def _cluster_event(self, now_s: float, event: str, cluster: str, pods: str) -> None:
        if event in _LOST:
            self._excuse(cluster, now_s)
        if event in ("pods", "forget", "rejoin"):
            lasts = event == "forget" or (event == "pods" and Pods(pods) in FAIL_S)
            if lasts or self._excused.get(cluster) == float("inf"):
                self._excused[cluster] = float("inf") if lasts else now_s + AFTERWARDS_S
        for app in self.apps.values():
            if event == "flap":
                app.flaps[cluster] = 0
            elif event != "recover":
                app.flaps.clear()

    def _binding(self, now_s: float, app: App, line: JSON) -> None:
        app.wanted = 0 if line["gone"] else max(line["wanted"], app.duplicated)
        app.level = min(app.level, app.wanted)
        if line["move"].get("strategy") == "BreakBeforeMake":
            app.twice = False
        moving = line["move"].get("phase") in _UNDER_WAY
        if moving and app.moving_s is None:
            app.moving_s = now_s
            app.begun.append(now_s)
            while app.begun[0] < now_s - LOOP_S:
                app.begun.popleft()
            if len(app.begun) == LOOP_MOVES + 1:
                self._report(now_s, f"{line['binding']}: {len(app.begun)} moves within {LOOP_S:g} s")
            for cluster in app.flaps:
                app.flaps[cluster] += 1
                if app.flaps[cluster] == FLAP_MOVES + 1:
                    self._report(now_s, f"{line['binding']}: {FLAP_MOVES + 1} moves since {cluster} flaps")
        elif not moving:
            app.moving_s = None

    def _counts(self, now_s: float, name: str, app: App, ready: Mapping[str, int], there: Mapping[str, int]) -> None:
        ready = {cluster: number for cluster, number in ready.items() if cluster not in app.leaving}
        total = max(ready.values(), default=0) if app.duplicated else sum(ready.values())
        used = {cluster for cluster, number in there.items() if number}
        others = {each for each in used & app.used if self._excused.get(each, 0.0) < now_s}
        new = {each for each in used - app.used if self._excused.get(each, 0.0) < now_s}
        if not app.twice and new and others and app.excused_s < now_s:
            self._report(now_s, f"{name}: BreakBeforeMake, and pods begin in {new} beside those in {others}")
        app.used = used
        if app.excused_s >= now_s:
            app.level = min(app.level, total)
        if total >= app.level:
            app.level = max(app.level, min(total, app.wanted))
            app.before = dict(ready)
            app.fell_s, app.judged, app.late = None, False, False
            app.seen = self._seen(app, ready)
            return
        if app.fell_s is None:
            app.fell_s = now_s
        if app.judged or not app.twice:
            return
        unnoticed = {name: app.seen.get(name, 0) for name, at_s in self._lost_s.items() if at_s > now_s - NOTICED_S}
        lost = {
            cluster: number - ready.get(cluster, 0)
            for cluster, number in (app.before | unnoticed).items()
            if self._excused.get(cluster, 0.0) >= app.fell_s
        }
        # Karmada may pass an edit on late. The next one takes the last pod although another one is not ready yet.
        rolls = max(min(1, len(app.rolls)), sum(at_s > now_s - START_S for at_s in app.rolls))
        explained = sum(number for number in lost.values() if number > 0) + rolls * len(app.before)
        if explained < app.level - total:
            app.judged = True
            self._report(now_s, f"{name}: {total} of {app.level} ready: was {app.before}, is {dict(ready)}")

    def _seen(self, app: App, ready: Mapping[str, int]) -> dict[str, int]:
        return {name: app.seen[name] for name in self._lost_s.keys() & app.seen.keys()} | dict(ready)

    def _durations(self, now_s: float, name: str, app: App) -> None:
        since_s = max(self._quiet_s, app.fell_s if app.fell_s is not None else now_s)
        if app.fell_s is not None and not app.late and now_s > since_s + OUTAGE_LIMIT_S:
            app.late = True
            self._report(now_s, f"{name}: fewer than {app.level} ready since {app.fell_s:.0f} s")
        if app.moving_s is not None and now_s > max(self._quiet_s, app.moving_s) + MOVE_LIMIT_S:
            self._report(now_s, f"{name}: a move is under way since {app.moving_s:.0f} s")
            app.moving_s = now_s
