"""Keeps certificates for as long as it runs: looks every now and then, sooner after a failure, and says how it went."""

import logging
import random
from typing import Final

from berthmaster.model.errors import BerthmasterError
from berthmaster.runtime.backoff import Backoff
from berthmaster.runtime.stopping import Stop
from berthmaster.serving.probes import Readiness
from certs.inspection import Item, Verdict, inspect
from certs.metrics import Metrics
from certs.options import Options
from certs.upkeep import Upkeep

_LOG: Final = logging.getLogger("berthmaster.certs")
_JITTER: Final = 0.2
"""The part of the interval by which looks of several replicas drift apart."""
_FIRST_RETRY_S: Final = 1.0


class Keeper:
    """A loop around ``Upkeep``. ``health`` may be asked from any thread."""

    def __init__(self, upkeep: Upkeep, options: Options, metrics: Metrics, interval_s: float) -> None:
        self._upkeep = upkeep
        self._options = options
        self._metrics = metrics
        self._interval_s = interval_s
        self._backoff = Backoff(first_s=min(_FIRST_RETRY_S, interval_s), longest_s=interval_s)
        self._draw = random.Random()  # noqa: S311 - spreads load, guards nothing
        self._stop = Stop()
        self._health = Readiness("the certificates have not been looked at yet")

    def run(self) -> None:
        """Keep, until told to stop."""
        while not self._stop.wait(self._round()):
            pass

    def stop(self) -> None:
        """End after the present look. Safe in a signal handler."""
        self._stop.ask()

    def health(self) -> Readiness:
        """Ready once everything has been looked at; what is wrong with certificates is a note, no reason to restart."""
        return self._health

    def _round(self) -> float:
        """One look; how long to wait until the next."""
        problem = ""
        try:
            report = self._upkeep.keep()
            items = inspect(report.world, self._options, report.now)
        except BerthmasterError as error:
            problem, items = str(error), []
        except Exception as error:  # noqa: BLE001 - the loop must outlive what nobody thought of; it is told in full
            _LOG.exception("a look at the certificates has crashed")
            problem, items = f"a look at the certificates has crashed: {error!r}", []
        else:
            problem = "; ".join(report.problems)
            self._metrics.show(items)
            if not problem:
                self._metrics.succeeded(report.now)
        return self._judged(problem, items)

    def _judged(self, problem: str, items: list[Item]) -> float:
        bad = "; ".join(f"{each.kind} {each.name}: {each.message}" for each in items if each.verdict is Verdict.BAD)
        if problem:
            self._metrics.failed()
            _LOG.error("certificates cannot all be kept: %s", problem)
            never = self._health.problem
            self._health = Readiness(never and problem, problem)
            return self._backoff.next_s()
        self._backoff.reset()
        self._health = Readiness(note=bad)
        return self._draw.uniform((1 - _JITTER) * self._interval_s, self._interval_s)
