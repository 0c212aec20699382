"""A configuration of moves that does not change, for tests without the file, the lease and the storm brake."""

from collections.abc import Mapping
from dataclasses import dataclass

from berthmaster.controllers.moves.supervisor import MoveSupervisor
from berthmaster.deciding.admissions import Admissions, Budgets
from berthmaster.deciding.config import MovesConfig
from berthmaster.runtime.clock import Clock


@dataclass(slots=True)
class FixedControl:
    """A ``LiveControl`` without a thread. A test engages and ends its brake.

    Attributes:
        file: the configuration when the process begins to lead, if it has changed since the process started.
    """

    admissions: Admissions
    config: MovesConfig
    brake: str = ""
    totals: Mapping[str, int] | None = None
    file: MovesConfig | None = None

    def begin(self, _now_s: float) -> None:
        if self.file is not None:
            self.use(self.file)

    def use(self, config: MovesConfig) -> None:
        self.config = config
        self.admissions.set_budgets(Budgets(config))

    def brake_reason(self) -> str | None:
        return self.brake or None


def default_moves(clock: Clock) -> MoveSupervisor:
    """Return moves as without a configuration file: only failover moves."""
    config = MovesConfig()
    return MoveSupervisor(FixedControl(Admissions(Budgets(config), clock.monotonic_s()), config), clock, "berthmaster")
