"""What a process needs to move workloads: the configuration, the budgets and the storm brake, and their metrics."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.moves import metrics
from berthmaster.controllers.moves.config_file import read_moves_config
from berthmaster.controllers.moves.storm_watch import StormWatch
from berthmaster.deciding import lease_record
from berthmaster.deciding.admissions import Admissions, Budgets
from berthmaster.deciding.config import MovesConfig
from berthmaster.model.binding import Binding
from berthmaster.model.errors import InputError
from berthmaster.model.meta import Key
from berthmaster.model.move import WAITING, MovePhase, MoveReason, MoveState, move_of
from berthmaster.runtime.logs import fields
from berthmaster.serving.reloaded_files import ReloadedFiles

_LOG: Final = logging.getLogger("berthmaster.moves")
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
        self._published: object = None
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
            self.totals = self._budgets.totals(each for _, each in bindings) if self._budgets.needs_totals else None
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
        record = None
        if self._file is not None:
            record = lease_record.SourcesRecord.of(self.config, self._problem[:1024], self._scheduler_name)
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
        if missing:
            metrics.BELOW_WANTED.inc(missing * passed_s)
        if (published := (counts, causes, held_down)) == self._published:
            return
        self._published = published
        for reason in MoveReason:
            for phase in MovePhase:
                metrics.BINDINGS.labels(reason.value, phase.value).set(counts[reason, phase])
        for cause in metrics.CAUSES:
            metrics.WAITING.labels(cause).set(causes[cause])
        metrics.HELD_DOWN.set(held_down)


def _missing_replicas(binding: Binding, state: MoveState) -> int:
    """Return how many replicas of a move under way are on no cluster that reports the workload healthy."""
    if not state.under_way:
        return 0
    healthy = {each.cluster_name for each in binding.status.aggregated_status if each.healthy}
    running = sum(each.replicas for each in binding.spec.clusters if each.name in healthy)
    return max(0, sum(state.target.values()) - running)
