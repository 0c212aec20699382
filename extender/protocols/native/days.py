"""``/v1/days``: how many workloads had which problem on each of the last days, from the ledger."""

import sys
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Final, NamedTuple

from berthmaster.kube.watch_options import BINDINGS
from berthmaster.ledger.times import microseconds
from berthmaster.model.errors import InputError, LedgerError
from berthmaster.model.readers import ANY_READER, Reader
from berthmaster.native_api.days import FleetDay, FleetDays
from extender.protocols.native.background import LIMIT_S, Background, BackgroundTexts, Run
from extender.protocols.native.history import ledger_of
from extender.protocols.native.parameters import reader_of
from extender.protocols.native.schedule import require_watched
from extender.protocols.services import Call, Services
from extender.state.fleet_days import PlaceStep, fleet_days, key_of, start_of, step_of, wrong_now

_MOST_STEPS: Final = 300_000
"""The most decisions that are kept. The days before the first of them are left out."""
_MOST_MISSING: Final = 5
_READERS: Final = 16
_MICROSECONDS: Final = 1_000_000


class _Result(NamedTuple):
    days_for: Callable[[Reader], list[FleetDay]]
    first_us: int | None
    missing: list[str]


class DaysOnRecord:
    """Answers how the last days were. A question to its background is the date of today.

    The decisions of the last days stay in memory, so that each computation reads only those that are new. It reads them
    in this process, because a fork may not open a database of SQLite that its parent has open. It rests as long as it
    works, because the threads of requests wait for the interpreter meanwhile.
    """

    def __init__(self) -> None:
        self._background = Background("days", _texts, self._computed)
        self._steps: list[PlaceStep] = []
        self._missing: list[tuple[int, str]] = []
        self._known: dict[int, int] = {}
        self._first_us = 0
        self._rest = threading.Event()

    def answer(self, services: Services, call: Call) -> FleetDays:
        ledger_of(services)
        require_watched(services, BINDINGS, subject="the workloads are")
        reader = reader_of(call)
        today = services.clock.now().astimezone(UTC).date()
        result, found = self._background.answer(services, call, today, wait=False)
        since = None if found.first_us is None else datetime.fromtimestamp(found.first_us / _MICROSECONDS, UTC)
        return FleetDays(
            days=found.days_for(reader),
            recorded_since=since,
            missing=found.missing if reader.sees("") else [],
            computed_at=result.computed_at,
            version=result.version,
            gaps=list(services.state.gaps(reader)),
            staleness=services.state.staleness,
        )

    def _computed(self, services: Services, today: date, _now: datetime, run: Run[date]) -> _Result:
        start_us = microseconds(start_of(today))
        try:
            first_us = self._read_new(services, start_us, run)
        except LedgerError as error:
            services.log.warning("the ledger cannot be read: %s", error)
            raise InputError("the ledger cannot be read now") from None
        steps, missing = self._steps, [message for _, message in self._missing]
        with services.state.placed() as index:
            rows = list(index.by_name())
        present, existing = wrong_now(rows), frozenset(key_of(each.binding) for each in rows)
        since_us = sys.maxsize if first_us is None else max(first_us, self._first_us)

        @lru_cache(_READERS)
        def days_for(reader: Reader) -> list[FleetDay]:
            return fleet_days(
                [each for each in steps if reader.sees(each.namespace)],
                [each for each in present if reader.sees(each.namespace)],
                existing,
                today,
                since_us,
            )

        days_for(ANY_READER)
        return _Result(days_for, None if first_us is None else max(since_us, start_us), missing)

    def _read_new(self, services: Services, start_us: int, run: Run[date]) -> int | None:
        """Read the decisions that are new, and forget those of earlier days. Return since when some are on record."""
        ledger, known, clock = ledger_of(services), dict(self._known), services.clock
        steps, missing = [*self._steps], [*self._missing]
        begun_s = clock.monotonic_s()
        for part in ledger.decided(start_us, known):
            steps += map(step_of, part.decisions)
            missing += part.missing
            known[part.segment] = part.read
            run.done += len(part.decisions)
            run()
            self._rest.wait(clock.monotonic_s() - begun_s)
            begun_s = clock.monotonic_s()
        steps = sorted((each for each in steps if each.at_us >= start_us), key=lambda each: each.at_us)
        if len(steps) > _MOST_STEPS:
            steps = steps[-_MOST_STEPS:]
            self._first_us = steps[0].at_us
        # New lists: results of earlier computations have the old ones.
        self._steps, self._known = steps, known
        self._missing = [each for each in missing if each[0] >= start_us][-_MOST_MISSING:]
        return ledger.first_us()


def _texts(_: date) -> BackgroundTexts:
    return BackgroundTexts(
        "the last days",
        "the decisions of the last days are being read; retry in a few seconds",
        "the decisions of the last days could not be read",
        f"the decisions of the last days take longer than {LIMIT_S:g} s to read",
    )
