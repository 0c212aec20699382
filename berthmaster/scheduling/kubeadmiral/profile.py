"""KubeAdmiral's profile: its stages, and its plugins as a SchedulingProfile configures them (``scheduler/profile.go``).

Plugins that read Katalyst's reports (``KatalystResourcesExist``) and unknown webhooks are not supported. A profile that
names one is rejected, like a profile that names an unknown plugin.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from berthmaster.model.errors import FieldError, shown
from berthmaster.model.kubeadmiral.profiles import PluginReference, PluginSet, SchedulingProfile
from berthmaster.model.placement_limits import DEFAULT_LIMITS, PlacementLimits
from berthmaster.scheduling.compiled_placement import CompiledPlacement
from berthmaster.scheduling.filters import Filter, Score
from berthmaster.scheduling.kubeadmiral.division import UnitReasons, assign
from berthmaster.scheduling.kubeadmiral.filter_plugins import DEFAULT_FILTERS, FILTERS, ClusterJoinedFilter
from berthmaster.scheduling.kubeadmiral.score_plugins import DEFAULT_SCORES, SCORES
from berthmaster.scheduling.kubeadmiral.select_plugins import DEFAULT_SELECTORS, SELECTORS, Selector, scored, select
from berthmaster.scheduling.kubeadmiral.unit import unit_excess
from berthmaster.scheduling.kubeadmiral.webhook_plugins import (
    NO_WEBHOOKS,
    WebhookFilter,
    Webhooks,
    WebhookScore,
    select_by_webhook,
)
from berthmaster.scheduling.profile import ALL, Plugins, Profile, Stages

_WEBHOOK: Final = "Webhook"
_BUILT_IN: Final[Mapping[str, Mapping[str, object]]] = {"filter": FILTERS, "score": SCORES, "select": SELECTORS}
_REPLICAS_PLUGINS: Final = frozenset({"ClusterCapacityWeight", "PreferenceBinPack"})


@dataclass(frozen=True, slots=True)
class PluginNames:
    """The plugins of each extension point, in order. Without select plugins every cluster that fits is selected."""

    filters: tuple[str, ...] = DEFAULT_FILTERS
    scores: tuple[str, ...] = DEFAULT_SCORES
    selectors: tuple[str, ...] = DEFAULT_SELECTORS


DEFAULT_PLUGINS: Final = PluginNames()


def kubeadmiral_profile(
    names: PluginNames = DEFAULT_PLUGINS, limits: PlacementLimits = DEFAULT_LIMITS, webhooks: Webhooks = NO_WEBHOOKS
) -> Profile:
    """Return the profile with these plugins. Its scheduler takes requests that ``request_of`` made."""
    filters: Mapping[str, Filter] = {name: WebhookFilter(name, each) for name, each in webhooks.items()} | FILTERS
    scores: Mapping[str, Score] = {name: WebhookScore(name, each) for name, each in webhooks.items()} | SCORES
    selectors: Mapping[str, Selector] = {
        name: partial(select_by_webhook, each) for name, each in webhooks.items()
    } | SELECTORS
    return Profile(
        Plugins(tuple(filters[name] for name in names.filters), tuple(scores[name] for name in names.scores)),
        stages=Stages(
            members=ClusterJoinedFilter(),
            compile=lambda placement, _fleet, affinities: CompiledPlacement(placement, affinities),
            candidates=scored,
            select=partial(select, tuple(selectors[name] for name in names.selectors)),
            assign=assign,
            reasons=UnitReasons,
            excess=unit_excess,
        ),
        limits=limits,
    )


def plugin_names(profile: SchedulingProfile, webhooks: Container[str] = ()) -> PluginNames:
    """Return the plugins of a SchedulingProfile by extension point: remaining defaults first, then enabled ones.

    Raises:
        FieldError: an enabled plugin is unknown, is of another extension point, or is enabled already. A default plugin
            must be disabled before it can be enabled at another position. KubeAdmiral then fails every attempt.
    """
    points = profile.spec.plugins
    return PluginNames(
        filters=_effective("filter", points.filter, DEFAULT_FILTERS, webhooks),
        scores=_effective("score", points.score, DEFAULT_SCORES, webhooks),
        selectors=_effective("select", points.select, DEFAULT_SELECTORS, webhooks),
    )


def _effective(point: str, changes: PluginSet, defaults: Sequence[str], webhooks: Container[str]) -> tuple[str, ...]:
    disabled = {each.name for each in changes.disabled}
    names = [] if ALL in disabled else [name for name in defaults if name not in disabled]
    for index, plugin in enumerate(changes.enabled):
        is_known = plugin.type == _WEBHOOK and plugin.name in webhooks and plugin.name not in names
        problem = None if is_known else _problem(point, plugin, names, is_default=plugin.name in defaults)
        if problem is not None:
            raise FieldError(f"spec.plugins.{point}.enabled[{index}].name", f"{shown(plugin.name)} {problem}")
        names.append(plugin.name)
    return tuple(names)


def _problem(point: str, plugin: PluginReference, names: Sequence[str], *, is_default: bool) -> str | None:
    if plugin.name in names:
        return "is enabled by default; disable it to move it" if is_default else "is a duplicate"
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
        return f"is a webhook that is not known here; {accepted}"
    return f"is an unknown plugin; {accepted}"
