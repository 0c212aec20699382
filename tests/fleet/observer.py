"""Writes the time line of a fleet: ready pods by application and cluster, moves, Works, and what was done to it.

Each line is a JSON object with the seconds since the start in ``t``, and one of:

- ``ready`` and ``there``: pods by application and cluster, each when one of them changed. ``there`` includes pods that
  are starting or terminating. ``lost`` lists the clusters that do not answer; their last counts are not repeated.
- ``binding``: the assignment, the eviction tasks and the move of an application changed.
- ``work``: a Work appeared, is being deleted, or is gone.
- ``event``: what a test did.
"""

import http.client
import json
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from e2e.control_plane import ControlPlane
from fleet.member import KINDS, Count, Member
from kube_store import JSON

from berthmaster.model.move import MOVE

PERIOD_S: Final = 0.3
_WATCH_LIMIT_S: Final = 60.0
_RECORD_LIMIT_S: Final = 1200.0
_BINDINGS: Final = "/apis/work.karmada.io/v1alpha2/resourcebindings"
_WORKS: Final = "/apis/work.karmada.io/v1alpha1/works"
_MOVE_FIELDS: Final = ("reason", "phase", "strategy", "source", "target", "until", "failures", "message", "cause")


class Observer:
    """It watches from threads of its own until it is closed.

    Attributes:
        lines: the time line so far.
    """

    def __init__(self, host: ControlPlane, members: Iterable[Member], file: Path) -> None:
        self.lines: list[JSON] = []
        self._start_s = time.monotonic()
        self._file = file.open("w")
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._counts: dict[str, tuple[dict[str, int], dict[str, int]] | None] = {}
        self._known: dict[tuple[str, ...], object] = {}
        self._threads = [threading.Thread(target=self._count, args=(each,), daemon=True) for each in members]
        self._threads.append(threading.Thread(target=self._sample, daemon=True))
        for path, see in ((_BINDINGS, self._binding), (_WORKS, self._work)):
            arguments = (host.url + path, host.trust, see)
            self._threads.append(threading.Thread(target=self._watch, args=arguments, daemon=True))
        for each in self._threads:
            each.start()

    def now_s(self) -> float:
        return time.monotonic() - self._start_s

    def note(self, event: str, **more: Any) -> None:
        self._write({"event": event, **more})

    def close(self) -> None:
        """Stop. Watches end by themselves."""
        self._end.set()
        for each in self._threads[:-2]:
            each.join(timeout=3.0)
        with self._lock:
            self._file.close()

    def _write(self, line: JSON) -> None:
        with self._lock:
            if self._file.closed:
                return
            line = {"t": round(self.now_s(), 2), **line}
            self.lines.append(line)
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()

    def _count(self, member: Member) -> None:
        with closing(Count(member.plane)) as count:
            while not self._end.wait(PERIOD_S):
                self._counts[member.name] = count.take()

    def _sample(self) -> None:
        before: JSON = {}
        while not self._end.wait(PERIOD_S):
            counts = dict(self._counts)
            now: JSON = {"ready": {}, "there": {}, "lost": sorted(name for name in counts if counts[name] is None)}
            for cluster, count in sorted(counts.items()):
                for kind, apps in zip(("ready", "there"), count or ({}, {}), strict=True):
                    for app, number in sorted(apps.items()):
                        now[kind].setdefault(app, {})[cluster] = number
            if now != before:
                self._write(now)
                before = now

    def _watch(self, url: str, trust: ssl.SSLContext, see: Callable[[str, JSON], None]) -> None:
        while not self._end.is_set():
            try:
                with closing(_changes(url, trust)) as changes:
                    for change in changes:
                        if self._end.is_set():
                            return
                        see(change["type"], change["object"])
            except (OSError, http.client.HTTPException, ValueError, KeyError):
                self._end.wait(1.0)

    def _binding(self, change: str, content: JSON) -> None:
        spec, annotations = content["spec"], content["metadata"].get("annotations") or {}
        move = json.loads(annotations.get(MOVE) or "{}")
        seen: JSON = {
            "binding": spec["resource"]["name"],
            "wanted": spec.get("replicas", 0),
            "clusters": {each["name"]: each.get("replicas", 0) for each in spec.get("clusters") or ()},
            "tasks": [each["fromCluster"] for each in spec.get("gracefulEvictionTasks") or ()],
            "move": {key: move[key] for key in _MOVE_FIELDS if move.get(key)},
            "gone": change == "DELETED",
        }
        self._tell(("binding", seen["binding"]), seen)

    def _work(self, change: str, content: JSON) -> None:
        metadata = content["metadata"]
        manifests = content["spec"]["workload"]["manifests"]
        if not manifests or manifests[0]["kind"] not in KINDS:
            return
        state = "gone" if change == "DELETED" else "being deleted" if "deletionTimestamp" in metadata else "alive"
        app, cluster = manifests[0]["metadata"]["name"], metadata["namespace"].removeprefix("karmada-es-")
        self._tell(("work", app, cluster), {"work": app, "cluster": cluster, "state": state})

    def _tell(self, key: tuple[str, ...], seen: JSON) -> None:
        if self._known.get(key) != seen:
            self._known[key] = seen
            self._write(seen)


class Recorder:
    """Keeps each state of bindings and Works, in full, for a test that looks at every moment.

    Attributes:
        bindings: the states of each binding by the name of its workload.
        works: the states of each Work by the name of its workload and of its cluster.
        ended: whether a watch ended, so that states may be missing.
    """

    def __init__(self, host: ControlPlane) -> None:
        self.bindings: dict[str, list[JSON]] = {}
        self.works: dict[tuple[str, str], list[JSON]] = {}
        self.ended = False
        for path, keep in ((_BINDINGS, self._binding), (_WORKS, self._work)):
            threading.Thread(target=self._watch, args=(host.url + path, host.trust, keep), daemon=True).start()

    def _watch(self, url: str, trust: ssl.SSLContext, keep: Callable[[JSON], None]) -> None:
        with suppress(OSError, http.client.HTTPException), closing(_changes(url, trust, _RECORD_LIMIT_S)) as changes:
            for change in changes:
                keep({**change["object"], "gone": change["type"] == "DELETED"})
        self.ended = True

    def _binding(self, content: JSON) -> None:
        self.bindings.setdefault(content["spec"]["resource"]["name"], []).append(content)

    def _work(self, content: JSON) -> None:
        cluster = content["metadata"]["namespace"].removeprefix("karmada-es-")
        for each in content["spec"]["workload"]["manifests"]:
            if each["kind"] in KINDS:
                self.works.setdefault((each["metadata"]["name"], cluster), []).append(content)


def _changes(url: str, trust: ssl.SSLContext, limit_s: float = _WATCH_LIMIT_S) -> Generator[JSON, None, None]:
    """Yield all objects of a collection, then their changes, until the API server ends the watch."""
    query = f"?watch=1&timeoutSeconds={int(limit_s)}"
    with urllib.request.urlopen(url + query, timeout=limit_s + 10, context=trust) as stream:
        for line in stream:
            yield json.loads(line)


def shown(line: JSON) -> str:
    """Return a line of a time line as a person reads it."""
    at = f"{line['t']:8.2f}  "
    if "event" in line:
        return f"{at}--- {' '.join(str(value) for key, value in line.items() if key != 't')}"
    if "work" in line:
        return f"{at}Work {line['work']} in {line['cluster']}: {line['state']}"
    if "binding" in line:
        if line["gone"]:
            return f"{at}binding {line['binding']}: gone"
        tasks = f" tasks {','.join(line['tasks'])}" if line["tasks"] else ""
        move = line["move"]
        moving = f" | {move['reason']} {move['phase']} {move.get('message', '')}" if move else ""
        return f"{at}binding {line['binding']}: {_pairs(line['clusters'])} of {line['wanted']}{tasks}{moving}"
    lost = f" lost: {','.join(line['lost'])}" if line["lost"] else ""
    apps = {**line["there"], **line["ready"]}
    counts = "; ".join(
        f"{app} ready {sum(line['ready'].get(app, {}).values())} ({_pairs(line['ready'].get(app, {}))})"
        f" there ({_pairs(line['there'].get(app, {}))})"
        for app in sorted(apps)
    )
    return f"{at}{counts or 'no pods'}{lost}"


def _pairs(counts: dict[str, int]) -> str:
    return " ".join(f"{name}={number}" for name, number in sorted(counts.items()))
