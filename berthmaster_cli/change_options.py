"""The changes of a what-if, as options of a command. Each change has the effect that it has in Karmada."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

import click
from msgspec.structs import replace

from berthmaster.manifests import load_manifests
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import InputError, name_list
from berthmaster.model.selector import LabelSelector, parse_selector
from berthmaster.simulation import changes
from berthmaster.simulation.change_texts import CHANGE_TEXTS
from berthmaster_cli import completion
from berthmaster_cli.flags import Flags, option

_Written = changes.ClusterChange | changes.WorkloadChange
_EXISTING: Final = click.Path(exists=True)
CHANGES_HELP: Final = (
    "Changes apply in this order: clusters that join, recover, get or lose labels and taints, leave and fail; then "
    "scales and rescheduling. Workloads are scheduled again only where Karmada would do so."
)


class ChangeFlags(Flags):
    """The changes of a simulation: an option for each of ``CHANGE_TEXTS``, and those that only commands have."""

    down: tuple[str, ...] = option(
        "Change: the cluster is lost. What moves then depends on --failover. CLUSTER may be a pattern such as 'eu-*', "
        "here and in other changes of clusters. Repeatable.",
        metavar="CLUSTER", shell_complete=completion.clusters,
    )  # fmt: skip
    down_region: tuple[str, ...] = option("Change: all clusters of the region are lost. Repeatable.", metavar="REGION")
    down_selector: tuple[str, ...] = option(
        "Change: all clusters with these labels are lost. Repeatable.", metavar="SELECTOR"
    )
    up: tuple[str, ...] = option(
        "Change: the cluster is ready again. Repeatable.", metavar="CLUSTER", shell_complete=completion.clusters
    )
    taint: tuple[str, ...] = option(
        "Change: the cluster gets a taint, or loses it with CLUSTER=KEY[:EFFECT]-. NoExecute evicts as --failover "
        "says. Repeatable.",
        metavar="CLUSTER=KEY[=VALUE]:EFFECT", shell_complete=completion.changed_clusters,
    )  # fmt: skip
    label: tuple[str, ...] = option(
        "Change: the cluster gets a label, or loses it with CLUSTER=KEY-. Repeatable.",
        metavar="CLUSTER=KEY=VALUE",
        shell_complete=completion.changed_clusters,
    )
    added: tuple[str, ...] = option(
        "Change: the clusters of a manifest join. Repeatable.",
        type=_EXISTING, names=("--add-cluster",), metavar="FILE",
    )  # fmt: skip
    remove: tuple[str, ...] = option(
        "Change: the cluster leaves, as with `karmadactl unjoin`. Its copies are deleted first. Repeatable.",
        metavar="CLUSTER", shell_complete=completion.clusters,
    )  # fmt: skip
    scale: tuple[str, ...] = option(
        "Change: the workload gets N replicas. Repeatable.", metavar="[NAMESPACE/]KIND/NAME=N"
    )
    reschedule: bool = option("Change: all workloads are rescheduled, as by a WorkloadRebalancer.")


def changes_from(flags: ChangeFlags, clusters: Iterable[Cluster] = ()) -> list[changes.WhatIf]:
    """Return the changes in the order of ``CHANGES_HELP``.

    Args:
        clusters: those that patterns, regions and selectors choose from. Without any, patterns stay as they are.

    Raises:
        UsageError: two options contradict each other, or an option chooses no cluster.
    """
    joining = [cluster for path in flags.added for cluster in _clusters(path)]
    chosen = _ChosenClusters([*clusters, *joining] if clusters else [])
    flags = dataclasses.replace(flags, down=(*flags.down, *chosen.lost(flags)))
    written = [(name, each) for name, change in _written(flags) for each in chosen.matching(name, change)]
    _check_contradictions(written)
    return [
        *map(changes.AddCluster, joining),
        *dict.fromkeys(change for _, change in written),
        *([changes.Reschedule()] if flags.reschedule else []),
    ]


def chooses_clusters(flags: ChangeFlags) -> bool:
    """Return whether a change names clusters by a pattern, a region or labels."""
    named = (change.cluster for _, change in _written(flags) if isinstance(change, changes.ClusterChange))
    return bool(flags.down_region or flags.down_selector) or any(map(_is_pattern, named))


def _written(flags: ChangeFlags) -> Iterator[tuple[str, _Written]]:
    """Yield the changes that texts describe, each with its option. A cluster may be a pattern."""
    for kind in CHANGE_TEXTS:
        for text in getattr(flags, kind.option.removeprefix("--")):
            try:
                yield kind.option, kind.read(text)
            except InputError as error:
                raise click.UsageError(f"{kind.option} {error}") from None


def _check_contradictions(written: Iterable[tuple[str, _Written]]) -> None:
    ready: set[str] = set()
    for name, change in written:
        match change:
            case changes.Up(cluster):
                ready.add(cluster)
            case changes.Down(cluster) | changes.RemoveCluster(cluster) if cluster in ready:
                both = f"{name} {cluster} and --up {cluster}"
                raise click.UsageError(f"{both} contradict each other; leave one of them out")


def _is_pattern(text: str) -> bool:
    return not set(text).isdisjoint("*?[")


class _ChosenClusters:
    """The clusters that options choose from. Without any, each option names its clusters itself."""

    def __init__(self, clusters: Sequence[Cluster]) -> None:
        self._clusters = clusters

    def matching(self, name: str, change: _Written) -> list[_Written]:
        """Return the changes of an option: one for each cluster of its pattern. A plain name may be unknown."""
        if not isinstance(change, changes.ClusterChange) or not _is_pattern(change.cluster) or not self._clusters:
            return [change]
        pattern, known = change.cluster, [each.name for each in self._clusters]
        found = [each for each in known if fnmatchcase(each, pattern)]
        problem = f"{name} {pattern}: no cluster has such a name"
        return [replace(change, cluster=each) for each in self._any(found, problem, known)]

    def lost(self, flags: ChangeFlags) -> Iterator[str]:
        """Yield the clusters of the regions and the labels that are lost."""
        for region in flags.down_region:
            yield from self._in_region(region)
        for selector in flags.down_selector:
            yield from self._selected(selector)

    def _in_region(self, region: str) -> list[str]:
        found = [each.name for each in self._clusters if each.spec.region == region]
        regions = (each.spec.region for each in self._clusters if each.spec.region)
        return self._any(found, f"--down-region {region}: no cluster is in this region", regions)

    def _selected(self, text: str) -> list[str]:
        selector = _parsed_selector("--down-selector", text)
        found = [each.name for each in self._clusters if selector.matches(each.metadata.labels)]
        labels = (f"{key}={value}" for each in self._clusters for key, value in each.metadata.labels.items())
        return self._any(found, f"--down-selector {text}: no cluster has such labels", labels)

    def _any(self, found: list[str], problem: str, known: Iterable[str]) -> list[str]:
        """Return the clusters that an option chooses; an error with the known values if it chooses none."""
        if found or not self._clusters:
            return found
        raise click.UsageError(f"{problem}; known are {name_list(sorted(set(known))) or 'none'}")


def _parsed_selector(option: str, text: str) -> LabelSelector:
    try:
        return parse_selector(text)
    except InputError as error:
        raise click.UsageError(f"{option}: {error}") from None


def _clusters(path: str) -> Iterator[Cluster]:
    manifests = load_manifests([path])
    if manifests.templates or manifests.policies or manifests.bindings:
        raise InputError(f"--add-cluster {path}: contains other objects than clusters; pass those with -f")
    yield from manifests.every_cluster
