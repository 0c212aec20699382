"""A configuration of moves that does not change, for tests without the file, the lease and the storm brake."""

from collections.abc import Mapping
from dataclasses import dataclass

from berthmaster.controllers.moves.admissions import Admissions
from berthmaster.controllers.moves.budgets import Budgets
from berthmaster.controllers.moves.config import MovesConfig
from berthmaster.controllers.moves.supervisor import MoveSupervisor
from berthmaster.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class FixedControl:
    """A ``MovesControl`` with a configuration that does not change, and without a storm brake."""

    admissions: Admissions
    settings: MovesConfig

    def begin(self, now_s: float) -> None:
        pass

    def config(self) -> MovesConfig:
        return self.settings

    def brake_reason(self) -> str | None:
        return None

    def totals(self) -> Mapping[str, int] | None:
        return None


def default_moves(clock: Clock) -> MoveSupervisor:
    """Return moves as without a configuration file: only failover moves."""
    config = MovesConfig()
    return MoveSupervisor(FixedControl(Admissions(Budgets(config), clock.monotonic_s()), config), clock, "berthmaster")
