"""Which plugins take part: the built-in ones, those of third parties, and the switches for both."""

import re
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Final, TypeVar

from berthmaster.model.errors import PluginError
from berthmaster.scheduling.filters import Filter
from berthmaster.scheduling.filters.api_enablement import APIEnablement
from berthmaster.scheduling.filters.cluster_affinity import ClusterAffinity
from berthmaster.scheduling.filters.cluster_eviction import ClusterEviction
from berthmaster.scheduling.filters.taint_toleration import TaintToleration
from berthmaster.scheduling.karmada.cluster_locality import ClusterLocality
from berthmaster.scheduling.karmada.spread_constraint import SpreadConstraint
from berthmaster.scheduling.karmada.workload_affinity import WorkloadAffinity, WorkloadAntiAffinity
from berthmaster.scheduling.profile import Plugins
from berthmaster.scheduling.scores import Score

__all__ = ["FILTER_GROUP", "SCORE_GROUP", "Plugins", "built_in", "with_third_parties"]

FILTER_GROUP: Final = "berthmaster.filters"
SCORE_GROUP: Final = "berthmaster.scores"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9.]*", re.ASCII)
"""Plugins are named in switches: a name must not look like one."""

P = TypeVar("P", Filter, Score)


def built_in(*, workload_affinity: bool = False) -> Plugins:
    """Karmada's plugins, with those behind the gate ``WorkloadAffinity`` if asked for."""
    gated = (WorkloadAffinity(), WorkloadAntiAffinity()) if workload_affinity else ()
    filters = (
        ClusterAffinity(),
        TaintToleration(),
        APIEnablement(),
        SpreadConstraint(),
        ClusterEviction(),
        *gated,
    )
    return Plugins(filters, (ClusterLocality(),))


def with_third_parties(plugins: Plugins) -> Plugins:
    """The same with every plugin that installed distributions offer through entry points.

    Raises:
        PluginError: one cannot be loaded, is not what it says, or takes a name that is taken.
    """
    filters = _load(entry_points(group=FILTER_GROUP), Filter)  # type: ignore[type-abstract] # only subclasses are made
    scores = _load(entry_points(group=SCORE_GROUP), Score)  # type: ignore[type-abstract] # only subclasses are made
    extended = Plugins((*plugins.filters, *filters), (*plugins.scores, *scores))
    names = extended.names
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise PluginError(f"there are two plugins named {doubled}; uninstall one of them")
    return extended


def _load(offered: Iterable[EntryPoint], base: type[P]) -> list[P]:
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
    """What keeps something that was loaded from being a plugin; empty if nothing does."""
    if not (isinstance(kind, type) and issubclass(kind, base)):
        return f"is no subclass of {base.__module__}.{base.__name__}"
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    if missing:
        return f"does not define {', '.join(missing)}"
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"needs a name of letters, digits and dots that starts with a letter, not {name!r}"
    return ""
