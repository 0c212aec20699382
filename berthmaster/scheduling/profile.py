"""Profiles: the plugins that take part in a decision, and what the engine does at its other stages."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Generic, Protocol, TypeVar

from berthmaster.model.errors import FieldError, InputError, PluginError
from berthmaster.model.placement import Placement
from berthmaster.model.placement_limits import DEFAULT_LIMITS, PlacementLimits, placement_excess
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.compiled_placement import Affinities, CompiledPlacement
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Attempt, Failure
from berthmaster.scheduling.filters import Filter, PlacementFilter, Score
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.prices import NO_PRICES, Prices

FILTER_GROUP: Final = "berthmaster.filters"
SCORE_GROUP: Final = "berthmaster.scores"
ALL: Final = "*"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9.]*", re.ASCII)
"""A plugin name must not look like a switch."""

PluginClass = TypeVar("PluginClass", Filter, Score)
Compiled = TypeVar("Compiled", bound=CompiledPlacement)


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plugins that take part, in the order in which a diagnosis lists their reasons."""

    filters: tuple[Filter, ...]
    scores: tuple[Score, ...]

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.filters] + [each.name for each in self.scores]

    def selected(self, switches: Sequence[str]) -> "Plugins":
        """Apply switches in the notation of Karmada's ``--plugins``.

        Args:
            switches: ``*`` enables all plugins, at any position. A name enables one plugin, ``-name`` disables one.

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
    """The explanations that a profile gives for one attempt. They are not computed during the decision."""

    @property
    def weights(self) -> Mapping[int, int]:
        """The division weight of each selected row. Empty if the division uses no weights."""

    def not_selected(self, row: int) -> str:
        """Explain why selection skipped a row that fits."""

    def assigned(self, row: int, replicas: int) -> str:
        """Return what is worth knowing about the replicas that a row got; empty for nothing."""

    def no_replicas(self, row: int) -> str:
        """Explain why a selected row got no replicas."""

    def capacity(self, row: int) -> tuple[int | None, str]:
        """Return how many more replicas fit, and the resource that limits them. None if the profile has no limit."""


def binding_excess(placement: Placement, limits: PlacementLimits) -> list[FieldError]:
    """Return what exceeds the limits in the placement of a binding. Paths start at the binding."""
    return [error.below("spec.placement") for error in placement_excess(placement, limits)]


@dataclass(frozen=True, slots=True)
class Stages(Generic[Compiled]):
    """What a profile does at the stages that are not switchable plugins.

    ``compile`` runs once per placement and fleet. The other stages receive its result.

    Attributes:
        members: selects the clusters that are considered at all, before any plugin.
        candidates: adds to the given rows and scores what selection and assignment need.
        select: chooses and orders the candidates that get the workload, or returns why none can.
        assign: returns the replicas of each selected cluster, or why they cannot be assigned.
    """

    members: PlacementFilter
    compile: Callable[[Placement, Fleet, Affinities], Compiled]
    candidates: Callable[[Context, IntArray, IntArray | None], Candidates]
    select: Callable[[Context, Compiled, Candidates], Candidates | Failure]
    assign: Callable[[Context, Compiled, Candidates], dict[str, int] | Failure]
    reasons: Callable[[Context, Compiled, Attempt], Reasons]
    excess: Callable[[Placement, PlacementLimits], list[FieldError]] = binding_excess


@dataclass(frozen=True, slots=True)
class Profile:
    """How a scheduler decides.

    Attributes:
        stages: the other stages. Their type of compiled placement is their own: the engine only passes it on.
        keep_empty: selected clusters stay in the assignment even with no replicas (Karmada's
            ``--enable-empty-workload-propagation``).
    """

    plugins: Plugins
    stages: Stages[Any]
    keep_empty: bool = False
    limits: PlacementLimits = DEFAULT_LIMITS
    prices: Prices = NO_PRICES


def with_third_parties(plugins: Plugins) -> Plugins:
    """Add every plugin that installed distributions offer through entry points.

    Raises:
        PluginError: a plugin cannot be loaded, has the wrong class, or has a name that is already taken.
    """
    filters = _load(entry_points(group=FILTER_GROUP), Filter)  # type: ignore[type-abstract] # only subclasses are made
    scores = _load(entry_points(group=SCORE_GROUP), Score)  # type: ignore[type-abstract] # only subclasses are made
    extended = Plugins((*plugins.filters, *filters), (*plugins.scores, *scores))
    names = extended.names
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise PluginError(f"there are two plugins named {duplicate}; uninstall one of them")
    return extended


def _load(offered: Iterable[EntryPoint], base: type[PluginClass]) -> list[PluginClass]:
    loaded = []
    for entry in sorted(offered, key=lambda each: each.name):
        try:
            kind = entry.load()
        except (ImportError, AttributeError) as error:
            raise PluginError(f"plugin {entry.name} ({entry.value}) cannot be loaded: {error}") from error
        problem = _problem(kind, base)
        if problem:
            raise PluginError(f"plugin {entry.name} ({entry.value}) {problem}")
        loaded.append(kind())
    return loaded


def _problem(kind: object, base: type[Filter | Score]) -> str:
    if not (isinstance(kind, type) and issubclass(kind, base)):
        return f"is no subclass of berthmaster.scheduling.{base.__name__}"
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    if missing:
        return f"does not define {', '.join(missing)}"
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"needs a name of letters, digits and dots that starts with a letter, not {name!r}"
    return ""
