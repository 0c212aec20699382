"""A profile: which plugins take part in a decision, and what else the engine is to do at each of its steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from berthmaster.model.errors import InputError
from berthmaster.model.placement import Placement
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Attempt, Failure
from berthmaster.scheduling.filters import Filter, PlacementFilter
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.group import Affinities
from berthmaster.scheduling.plan import Plan
from berthmaster.scheduling.scores import Score

ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plugins that take part, in the order in which their reasons are told."""

    filters: tuple[Filter, ...]
    scores: tuple[Score, ...]

    @property
    def names(self) -> list[str]:
        """The names of all of them."""
        return [each.name for each in self.filters] + [each.name for each in self.scores]

    def selected(self, switches: Sequence[str]) -> "Plugins":
        """Those that switches leave on, written as Karmada's ``--plugins``.

        Args:
            switches: ``*`` turns all on, wherever it stands; a name turns one on, ``-name`` turns one off.

        Raises:
            InputError: a name is unknown.
        """
        known = self.names
        unknown = [each for each in switches if each != ALL and each.removeprefix("-") not in known]
        if unknown:
            raise InputError(f"unknown plugin {unknown[0].removeprefix('-')!r}; known are {', '.join(known)}")
        on = set(known) if ALL in switches else set()
        for switch in switches:
            if switch.startswith("-"):
                on.discard(switch[1:])
            elif switch != ALL:
                on.add(switch)
        return Plugins(
            tuple(plugin for plugin in self.filters if plugin.name in on),
            tuple(plugin for plugin in self.scores if plugin.name in on),
        )


class Reasons(Protocol):
    """What a diagnosis asks a profile about one attempt. Nothing of it is worked out while deciding."""

    @property
    def weights(self) -> Mapping[int, int]:
        """The weight of each selected row in the division; empty where none has one."""

    def not_selected(self, row: int) -> str:
        """Why selection passed over a row that fits."""

    def no_replicas(self, row: int) -> str:
        """Why the division left nothing for a selected row."""

    def capacity(self, row: int) -> tuple[int | None, str]:
        """How many more replicas fit, and the resource that allows no more; None where the profile does not ask."""


@dataclass(frozen=True, slots=True)
class Stages:
    """What a way of scheduling does at the engine's steps, apart from plugins that can be switched.

    Attributes:
        members: which clusters are looked at at all, before any plugin.
        plan: takes a placement apart for a fleet.
        candidates: of some rows with their scores, what selection and assignment have to know.
        select: which candidates get the workload, in an order, or why none can.
        assign: the replicas of each selected cluster, or why they cannot be placed.
        reasons: explains what became of an attempt.
    """

    members: PlacementFilter
    plan: Callable[[Placement, Fleet, Affinities], Plan]
    candidates: Callable[[Context, IntArray, IntArray | None], Candidates]
    select: Callable[[Context, Candidates], Candidates | Failure]
    assign: Callable[[Context, Candidates], dict[str, int] | Failure]
    reasons: Callable[[Context, Attempt], Reasons]


@dataclass(frozen=True, slots=True)
class Profile:
    """How a scheduler decides.

    Attributes:
        plugins: the filters and scores that take part.
        keep_empty: a workload's selected clusters stay in its assignment even with no replicas (Karmada's
            ``--enable-empty-workload-propagation``).
        stages: what is done besides; None for Karmada's.
    """

    plugins: Plugins
    keep_empty: bool = False
    stages: Stages | None = None
