"""What a process needs to move workloads: the configuration, the budgets and the storm brake, and their metrics."""

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.moves import metrics
from berthmaster.controllers.moves.config_file import read_moves_config
from berthmaster.deciding import lease_record
from berthmaster.deciding.budgets import Admissions, Budgets
from berthmaster.deciding.config import BrakeLimits, BrakeSettings, MovesConfig, MoveSubject, subject_of
from berthmaster.deciding.storm_brake import BrakeState, StormBrake
from berthmaster.kube.informer import Informer
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import InputError
from berthmaster.model.meta import Key
from berthmaster.model.move import WAITING, MovePhase, MoveReason, MoveState, as_moved, move_of
from berthmaster.runtime.logs import fields
from berthmaster.serving.reloaded_files import ReloadedFiles

_LOG: Final = logging.getLogger("berthmaster.moves")
_NEVER_READY_S: Final = 60.0
"""A cluster whose condition turned this soon after its creation was never ready: it begins as unready."""


class StormWatch:
    """Keeps the storm brake up to date. Safe for several threads."""

    def __init__(self, context: ControllerContext, settings: BrakeSettings) -> None:
        self._context = context
        self._clock = context.clock
        self._brake = StormBrake(settings)
        self._lock = threading.Lock()
        self._record = lease_record.BrakeRecord()
        self._begun = False

    def follow(self, clusters: Informer[Cluster]) -> None:
        """Observe clusters. Call it before the informer starts, and before handlers that act on lost clusters."""

        def contact() -> None:
            with self._lock:
                now_s = self._clock.monotonic_s()
                if clusters.problem:
                    self._brake.out_of_reach(now_s)
                else:
                    self._brake.in_reach(now_s)

        clusters.subscribe(self._cluster_changed)
        clusters.on_contact(contact)

    def configure(self, settings: BrakeSettings) -> None:
        with self._lock:
            self._brake.configure(settings)

    def begin(self) -> None:
        """Judge the clusters, with the record of the previous leader. Call it when this process leads."""
        lease = self._context.lease
        self._record = lease_record.brake_record(lease.annotation(lease_record.BRAKE) if lease is not None else None)
        with self._lock:
            now_s = self._clock.monotonic_s()
            resumed_at = self._record.resumed_at
            resumed_s = None if resumed_at is None else now_s - max(0.0, self._age_s(resumed_at))
            outage_s = 0.0 if lease is None else lease.unled_s - lease.options.lease_s
            self._brake.begin(now_s, engaged=bool(self._record.reason), resumed_s=resumed_s, outage_s=outage_s)
        self._begun = True
        self.tick()

    def reason(self) -> str | None:
        """Return why no move may begin or end now; None if moves may."""
        with self._lock:
            return self._brake.engaged(self._clock.monotonic_s())

    def tick(self) -> None:
        """Obey a user, and report a change of the state. Call it every second or so."""
        if not self._begun:
            return
        lease = self._context.lease
        if lease is not None and (request := lease.annotation(lease_record.RESUME)) is not None:
            self._resume(request)
        with self._lock:
            state = self._brake.state(self._clock.monotonic_s())
        self._report(state)

    def _cluster_changed(self, _key: Key, before: Cluster | None, after: Cluster | None) -> None:
        with self._lock:
            now_s = self._clock.monotonic_s()
            if after is not None:
                since_s = None if after.ready else self._unready_since_s(after, now_s)
                self._brake.observe(after.name, now_s, ready=after.ready, unready_since_s=since_s)
            elif before is not None:
                self._brake.remove(before.name, now_s)

    def _unready_since_s(self, cluster: Cluster, now_s: float) -> float | None:
        """Return since when a cluster is unready, on the monotonic clock; None if it was never ready."""
        found = [each.last_transition_time for each in cluster.status.conditions if each.type == "Ready"]
        if not found:
            return None
        try:
            turned = datetime.fromisoformat(found[0])
        except ValueError:
            return now_s
        created = cluster.metadata.creation_timestamp
        if turned.tzinfo is None or (created is not None and (turned - created).total_seconds() < _NEVER_READY_S):
            return None
        return now_s - max(0.0, self._age_s(turned))

    def _age_s(self, moment: datetime) -> float:
        return (self._clock.now() - moment).total_seconds()

    def _resume(self, text: str) -> None:
        """End the brake for a user, once for each request."""
        lease = self._context.lease
        if lease is None:
            return
        now = self._clock.now().replace(microsecond=0)
        request = lease_record.resume_request(text, now)
        with self._lock:
            engaged = self._brake.engaged(self._clock.monotonic_s())
            accepted = self._brake.resume()
        lease.annotate(lease_record.RESUME, None)
        if engaged is None and self._record.resumed_at is not None and self._record.resumed_at >= request.at:
            return  # the annotation is observed once more before its removal
        self._record = lease_record.BrakeRecord(resumed_at=now)
        lease.annotate(lease_record.BRAKE, lease_record.text_of(self._record))
        was = f"was engaged: {engaged}" if engaged is not None else "was not engaged"
        why = f"; {request.message}" if request.message else ""
        note = f"a user ended the storm brake, which {was}; the loss of {accepted} clusters is accepted{why}"
        self._announce("Warning", "StormBrakeResumed", note)

    def _report(self, state: BrakeState) -> None:
        metrics.BRAKE.set(bool(state.reason))
        metrics.BRAKE_UNREADY.set(state.unready)
        before = self._record
        if (before.reason, before.unready) == (state.reason, state.unready):
            return
        begun = before.since if before.reason else self._clock.now().replace(microsecond=0)
        since = begun if state.reason else None
        self._record = lease_record.BrakeRecord(state.reason, since, state.unready, before.resumed_at)
        if (lease := self._context.lease) is not None:
            quiet = not state.reason and before.resumed_at is None
            lease.annotate(lease_record.BRAKE, None if quiet else lease_record.text_of(self._record))
        if state.reason and not before.reason:
            self._announce("Warning", "StormBrakeEngaged", f"nothing is moved or evicted: {state.reason}")
        elif before.reason and not state.reason:
            self._announce("Normal", "StormBrakeReleased", f"moves continue; the storm brake ended: {before.reason}")

    def _announce(self, kind: Literal["Normal", "Warning"], reason: str, note: str) -> None:
        _LOG.log(logging.WARNING if kind == "Warning" else logging.INFO, note, extra=fields(reason=reason))
        self._context.record_on_lease(kind, reason, "Moving", note)


_CHECK_S: Final = 5.0
"""How often the file is checked, and the bindings are counted."""
_CLOSED: Final = MovesConfig(pause="Planned")
"""In use if the file is invalid at the start. Scheduling must not wait for a correct file, and planned moves can."""


class LiveControl:
    """The configuration of moves, which is reloaded, the storm brake, and what is admitted.

    Attributes:
        config: the configuration in use.
        totals: the replicas that each budget with a percentage selects; None until they are counted.
        admissions: the moves under way. The caller of its methods holds one lock for all of them.
    """

    def __init__(self, context: ControllerContext, path: Path | None, scheduler_name: str = "") -> None:
        """Read the configuration. Nothing may move before ``begin``.

        Args:
            path: the configuration file; None for the defaults.

        Raises:
            InputError: there is no such file. An invalid file only pauses planned moves until it is corrected.
        """
        self._context = context
        self._scheduler_name = scheduler_name
        self._problem = ""
        self.config = MovesConfig()
        self._file = None if path is None else self._open(path)
        if self._file is not None:
            self.config = self._file.content()
        self._budgets = Budgets(self.config)
        self.totals: Mapping[str, int] | None = None
        self._counted_s = float("-inf")
        self.admissions = Admissions(self._budgets, float("inf"))
        self.storm = StormWatch(context, self.config.brake)

    def begin(self, now_s: float) -> None:
        """Begin to lead, at a monotonic time. All clusters and bindings were observed before.

        A standby does not read the file, so it may have changed since the process started.
        """
        if self._file is not None:
            self._use(self._file.content(check=True))
        self.admissions.lead(now_s)
        self.storm.begin()
        self._record_sources()

    def brake_reason(self) -> str | None:
        """Return why no move may begin or end now; None if moves may."""
        return self.storm.reason()

    def tick(self, bindings: Iterable[tuple[Key, Binding]], moving: Iterable[tuple[Key, Binding]]) -> bool:
        """Read a changed file, keep the record in the lease up to date, and count. Call it every second or so.

        Args:
            bindings: the bindings of this scheduler. They are read every some seconds, and only if a budget has a
                percentage.
            moving: those of them that have the record of a move. They are read every some seconds.

        Returns:
            Whether the configuration changed.
        """
        changed = self._file is not None and self._use(self._file.content())
        self.storm.tick()
        self._record_sources()
        now_s = self._context.clock.monotonic_s()
        if now_s - self._counted_s >= _CHECK_S:
            passed_s = min(now_s - self._counted_s, 2 * _CHECK_S)
            self._counted_s = now_s
            self._count(moving, passed_s)
            self.totals = self._budgets.totals(_sized(bindings)) if self._budgets.needs_totals else None
        return changed

    def _open(self, path: Path) -> ReloadedFiles[MovesConfig]:
        first = True

        def load() -> MovesConfig:
            nonlocal first
            began, first = first, False
            try:
                found = read_moves_config(path)
            except InputError as error:
                if not began:
                    raise ValueError(str(error)) from None
                self._invalid(error, "planned moves are paused until it is corrected")
                return _CLOSED
            self._problem = ""
            return found

        def failed(error: Exception) -> None:
            self._invalid(error, "the last valid content stays in use")

        try:
            return ReloadedFiles([path], load, failed, check_interval_s=_CHECK_S)
        except OSError as error:
            raise InputError(f"--moves-config {path}: cannot be read: {error.strerror or error}") from None

    def _invalid(self, error: Exception, consequence: str) -> None:
        self._problem = str(error)
        note = f"the configuration of moves is invalid, and {consequence}: {error}"
        _LOG.error(note)
        self._context.record_on_lease("Warning", "InvalidMovesConfiguration", "Moving", note)

    def _use(self, config: MovesConfig) -> bool:
        metrics.CONFIG_VALID.set(not self._problem)
        if config is self.config:
            return False
        self.config, self._budgets, self.totals = config, Budgets(config), None
        self._counted_s = float("-inf")
        self.admissions.set_budgets(self._budgets)
        self.storm.configure(config.brake)
        _LOG.info("the configuration of moves changed", extra=fields(budgets=[each.name for each in config.budgets]))
        return True

    def _record_sources(self) -> None:
        """Record in the lease which moves are on, so that commands can say so."""
        lease = self._context.lease
        if lease is None:
            return
        defaults, brake = self.config.defaults, self.config.brake
        record = (
            lease_record.SourcesRecord(
                defaults.failback.mode,
                defaults.drain.mode,
                self.config.pause,
                self._problem[:1024],
                lease_record.budget_records(self.config.budgets),
                self._scheduler_name,
                BrakeLimits(brake.enabled, brake.unhealthy_percent, brake.min_clusters),
                defaults.rebalance.mode,
                defaults.strategy.value,
                defaults.volumes.value,
                len(self.config.rules),
            )
            if self._file is not None
            else None
        )
        lease.annotate(lease_record.SOURCES, None if record is None else lease_record.text_of(record))

    def _count(self, bindings: Iterable[tuple[Key, Binding]], passed_s: float) -> None:
        now = self._context.clock.now()
        counts: Counter[tuple[MoveReason, MovePhase]] = Counter()
        causes: Counter[str] = Counter()
        held_down, missing = 0, 0
        for key, binding in bindings:
            state = move_of(binding)
            if state is not None:
                counts[state.reason, state.phase] += 1
                held_down += state.held_down(now)
                if state.phase in WAITING:
                    causes[self.admissions.cause_of(key)] += 1
                missing += _missing_replicas(binding, state)
        for reason in MoveReason:
            for phase in MovePhase:
                metrics.BINDINGS.labels(reason.value, phase.value).set(counts[reason, phase])
        for cause in metrics.CAUSES:
            metrics.WAITING.labels(cause).set(causes[cause])
        metrics.HELD_DOWN.set(held_down)
        if missing:
            metrics.BELOW_WANTED.inc(missing * passed_s)


def _sized(bindings: Iterable[tuple[Key, Binding]]) -> Iterator[tuple[MoveSubject, int]]:
    """Yield what budgets select by, and the replicas, of each binding."""
    for _, binding in bindings:
        yield subject_of(binding), sum(each.replicas for each in as_moved(binding).spec.clusters)


def _missing_replicas(binding: Binding, state: MoveState) -> int:
    """Return how many replicas of a move under way are on no cluster that reports the workload healthy."""
    if not state.under_way:
        return 0
    healthy = {each.cluster_name for each in binding.status.aggregated_status if each.healthy}
    running = sum(each.replicas for each in binding.spec.clusters if each.name in healthy)
    return max(0, sum(state.target.values()) - running)
