"""KubeAdmiral's profile: its stages, and its plugins with what a SchedulingProfile changes (``scheduler/profile.go``).

Plugins that read what katalyst reports of a cluster (``KatalystResourcesExist``) are not here, so that a profile that
names one is refused like one that names a plugin that nobody knows; neither are webhooks, which are others' services.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from berthmaster.model.errors import FieldError, shown
from berthmaster.model.kubeadmiral import ExtensionPoints, PluginReference, PluginSet, SchedulingProfile
from berthmaster.model.placement import Placement
from berthmaster.scheduling.compiled_placement import Affinities, CompiledPlacement
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral.division import UnitReasons, assign
from berthmaster.scheduling.kubeadmiral.plugins import (
    DEFAULT_FILTERS,
    DEFAULT_SCORES,
    DEFAULT_SELECTORS,
    FILTERS,
    SCORES,
    SELECTORS,
    ClusterJoinedFilter,
    scored,
    select,
)
from berthmaster.scheduling.profile import ALL, Plugins, Profile, Stages

_WEBHOOK: Final = "Webhook"
_BUILT_IN: Final[Mapping[str, Mapping[str, object]]] = {"filter": FILTERS, "score": SCORES, "select": SELECTORS}
_REPLICAS_PLUGINS: Final = frozenset({"ClusterCapacityWeight", "PreferenceBinPack"})


@dataclass(frozen=True, slots=True)
class PluginNames:
    """The plugins of each point, in order; without any select plugin every cluster that fits is selected."""

    filters: tuple[str, ...] = DEFAULT_FILTERS
    scores: tuple[str, ...] = DEFAULT_SCORES
    selectors: tuple[str, ...] = DEFAULT_SELECTORS


DEFAULT_PLUGINS: Final = PluginNames()


def kubeadmiral_profile(names: PluginNames = DEFAULT_PLUGINS) -> Profile:
    """The profile that these plugins make; its scheduler is asked with ``request_of`` a unit."""
    return Profile(
        Plugins(tuple(FILTERS[name] for name in names.filters), tuple(SCORES[name] for name in names.scores)),
        stages=Stages(
            members=ClusterJoinedFilter(),
            compile=_compile,
            candidates=scored,
            select=partial(select, names.selectors),
            assign=assign,
            reasons=UnitReasons,
        ),
    )


def plugin_names(profile: SchedulingProfile) -> PluginNames:
    """The plugins that a profile leaves and adds, by point: the defaults in their order, then its own in theirs.

    Raises:
        FieldError: an enabled plugin is unknown, does not work at this point, or takes part already - a default one
            has to be disabled before it can be enabled at another place. KubeAdmiral then fails every attempt.
    """
    try:
        return _plugin_names(profile.spec.plugins)
    except FieldError as error:
        raise error.below("spec.plugins") from None


def _compile(placement: Placement, _fleet: Fleet, affinities: Affinities) -> CompiledPlacement:
    """Compile the groups. The stages read all else from the unit."""
    return CompiledPlacement(placement, affinities)


def _plugin_names(points: ExtensionPoints) -> PluginNames:
    return PluginNames(
        filters=_effective("filter", points.filter, DEFAULT_FILTERS),
        scores=_effective("score", points.score, DEFAULT_SCORES),
        selectors=_effective("select", points.select, DEFAULT_SELECTORS),
    )


def _effective(point: str, changes: PluginSet, defaults: Sequence[str]) -> tuple[str, ...]:
    disabled = {each.name for each in changes.disabled}
    names = [] if ALL in disabled else [name for name in defaults if name not in disabled]
    for index, plugin in enumerate(changes.enabled):
        problem = _problem(point, plugin, names, is_default=plugin.name in defaults)
        if problem is not None:
            raise FieldError(f"{point}.enabled[{index}].name", f"{shown(plugin.name)} {problem}")
        names.append(plugin.name)
    return tuple(names)


def _problem(point: str, plugin: PluginReference, names: Sequence[str], *, is_default: bool) -> str | None:
    """Why a plugin cannot be added to those that take part already, or None."""
    if plugin.name in names:
        return "takes part by default; disable it to move it" if is_default else "is a duplicate"
    known = _BUILT_IN[point]
    if plugin.name in known:
        return None
    accepted = f"accepted are {', '.join(known)}"
    elsewhere = [other for other, plugins in _BUILT_IN.items() if plugin.name in plugins]
    if elsewhere:
        return f"works at {' and '.join(elsewhere)}, not at {point}; {accepted}"
    if plugin.name in _REPLICAS_PLUGINS:
        return f"divides replicas, which a profile cannot change; {accepted}"
    if plugin.type == _WEBHOOK:
        return f"is a webhook, and those are not called here; {accepted}"
    return f"is an unknown plugin; {accepted}"
