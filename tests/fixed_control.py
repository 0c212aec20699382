"""A configuration of moves that does not change, for tests without the file, the lease and the storm brake."""

from collections.abc import Mapping
from dataclasses import dataclass

from berthmaster.controllers.moves.supervisor import MoveSupervisor
from berthmaster.deciding.budgets import Admissions, Budgets
from berthmaster.deciding.config import MovesConfig
from berthmaster.runtime.clock import Clock


@dataclass(slots=True)
class FixedControl:
    """A ``LiveControl`` with a configuration that does not change. A test engages and ends its brake."""

    admissions: Admissions
    config: MovesConfig
    brake: str = ""
    totals: Mapping[str, int] | None = None

    def begin(self, now_s: float) -> None:
        pass

    def brake_reason(self) -> str | None:
        return self.brake or None


def default_moves(clock: Clock) -> MoveSupervisor:
    """Return moves as without a configuration file: only failover moves."""
    config = MovesConfig()
    return MoveSupervisor(FixedControl(Admissions(Budgets(config), clock.monotonic_s()), config), clock, "berthmaster")
