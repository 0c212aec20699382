"""The configuration of moves: what may move, by which strategy, how many at once, and when nothing may move.

``config_file.py`` reads a file of these types. Without a file, ``MovesConfig()`` applies: no failback, no drain, and
the storm brake with its defaults.
"""

from dataclasses import dataclass, field
from typing import Final

from berthmaster.deciding.budgets import DEFAULT_BUDGET, Budget
from berthmaster.deciding.move_selector import MoveSelector, MoveSubject
from berthmaster.deciding.move_settings import NO_SOURCE, MoveOverrides, MoveSettings
from berthmaster.deciding.pause import Pause
from berthmaster.deciding.storm_brake import BrakeSettings
from berthmaster.model.move import MoveStrategy

JOB: Final = "Job"
# Two copies of a CronJob or a Job do the same work twice.
_BREAK_FIRST: Final = MoveOverrides(strategy=MoveStrategy.BREAK_BEFORE_MAKE)
_REPEATED: Final = frozenset({JOB, "CronJob"})


class MoveRule(MoveOverrides, frozen=True, kw_only=True):
    """Settings for the bindings that the selector matches. The first rule that states a setting applies."""

    selector: MoveSelector


@dataclass(frozen=True, slots=True)
class MovesConfig:
    """The whole configuration of moves.

    Attributes:
        rules: exceptions. For each setting, the first rule that matches and states it applies.
    """

    pause: Pause = "None"
    defaults: MoveSettings = field(default_factory=MoveSettings)
    rules: tuple[MoveRule, ...] = ()
    budgets: tuple[Budget, ...] = (DEFAULT_BUDGET,)
    brake: BrakeSettings = field(default_factory=BrakeSettings)

    def settings_for(self, subject: MoveSubject) -> MoveSettings:
        """Return how a binding moves.

        Jobs never move by failback, drain or rebalancing, unless a rule names their kind and sets the mode.
        """
        settings = _BREAK_FIRST.applied(self.defaults) if subject.kind in _REPEATED else self.defaults
        if subject.kind == JOB:
            settings = NO_SOURCE.applied(settings)
        # The first rule wins, so it is applied last.
        for rule in reversed(self.rules):
            if rule.selector.matches(subject):
                chosen = rule if subject.kind != JOB or JOB in rule.selector.kinds else rule.with_modes(None)
                settings = chosen.applied(settings)
        return settings

    @property
    def rebalances(self) -> bool:
        """Whether drift asks for moves of any binding."""
        modes = (self.defaults.rebalance.mode, *(each.rebalance.mode for each in self.rules))
        return any(each not in {None, "Off", False} for each in modes)


DEFAULT_MOVES: Final = MovesConfig()
"""What applies without a file."""
