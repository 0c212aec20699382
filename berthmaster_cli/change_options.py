"""The changes of a what-if, as options of a command. Each change has the effect that it has in Karmada."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final, TypeVar

import click
from msgspec.structs import replace

from berthmaster.manifests import load_manifests
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import InputError, name_list
from berthmaster.model.selector import LabelSelector, parse_selector
from berthmaster.simulation import changes
from berthmaster.simulation.change_texts import label_change, scale_change, taint_change
from berthmaster_cli import completion
from berthmaster_cli.flags import Flags, option

C = TypeVar("C")

_EXISTING: Final = click.Path(exists=True)
CHANGES_HELP: Final = (
    "Changes apply in this order: clusters that join, recover, get or lose labels and taints, leave and fail; then "
    "scales and rescheduling. Workloads are scheduled again only where Karmada would do so."
)


class ChangeFlags(Flags):
    """The changes of a simulation."""

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
    removed: tuple[str, ...] = option(
        "Change: the cluster leaves, as with `karmadactl unjoin`. Its copies are deleted first. Repeatable.",
        names=("--remove",), metavar="CLUSTER", shell_complete=completion.clusters,
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
    down, up, removed = chosen.named("--down", flags.down), chosen.named("--up", flags.up), flags.removed
    down += [name for each in flags.down_region for name in chosen.in_region(each)]
    down += [name for each in flags.down_selector for name in chosen.selected(each)]
    removed = tuple(chosen.named("--remove", flags.removed))
    both = sorted({*down, *removed} & set(up))
    if both:
        option = "--down" if both[0] in down else "--remove"
        raise click.UsageError(f"{option} {both[0]} and --up {both[0]} contradict each other; leave one of them out")
    return [
        *map(changes.AddCluster, joining),
        *map(changes.Up, dict.fromkeys(up)),
        *chosen.edits("--label", flags.label, label_change),
        *chosen.edits("--taint", flags.taint, taint_change),
        *map(changes.RemoveCluster, dict.fromkeys(removed)),
        *map(changes.Down, dict.fromkeys(down)),
        *(_read("--scale", text, scale_change) for text in flags.scale),
        *([changes.Reschedule()] if flags.reschedule else []),
    ]


def chooses_clusters(flags: ChangeFlags) -> bool:
    """Return whether a change names clusters by a pattern, a region or labels."""
    edited = (text.partition("=")[0] for text in (*flags.label, *flags.taint))
    named = (*flags.down, *flags.up, *flags.removed, *edited)
    return bool(flags.down_region or flags.down_selector) or any(map(_is_pattern, named))


def _is_pattern(text: str) -> bool:
    return not set(text).isdisjoint("*?[")


class _ChosenClusters:
    """The clusters that options choose from. Without any, each option names its clusters itself."""

    def __init__(self, clusters: Sequence[Cluster]) -> None:
        self._clusters = clusters

    def named(self, option: str, texts: Iterable[str]) -> list[str]:
        """Return the clusters of names and patterns. A name may be unknown."""
        found: list[str] = []
        for text in texts:
            if not _is_pattern(text) or not self._clusters:
                found.append(text)
                continue
            matching = [each.name for each in self._clusters if fnmatchcase(each.name, text)]
            found += self._any(matching, f"{option} {text}: no cluster has such a name", self._names())
        return found

    def in_region(self, region: str) -> list[str]:
        found = [each.name for each in self._clusters if each.spec.region == region]
        regions = (each.spec.region for each in self._clusters if each.spec.region)
        return self._any(found, f"--down-region {region}: no cluster is in this region", regions)

    def selected(self, text: str) -> list[str]:
        selector = _parsed_selector("--down-selector", text)
        found = [each.name for each in self._clusters if selector.matches(each.metadata.labels)]
        labels = (f"{key}={value}" for each in self._clusters for key, value in each.metadata.labels.items())
        return self._any(found, f"--down-selector {text}: no cluster has such labels", labels)

    def _names(self) -> Iterator[str]:
        return (each.name for each in self._clusters)

    def edits(
        self, option: str, texts: Iterable[str], read: Callable[[str], changes.ClusterChange]
    ) -> list[changes.ClusterChange]:
        """Return the edits of labels or taints, one for each cluster of a pattern."""
        edits = [_read(option, text, read) for text in texts]
        return [replace(each, cluster=name) for each in edits for name in self.named(option, [each.cluster])]

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


def _read(option: str, text: str, read: Callable[[str], C]) -> C:
    try:
        return read(text)
    except InputError as error:
        raise click.UsageError(f"{option} {error}") from None


def _clusters(path: str) -> Iterator[Cluster]:
    manifests = load_manifests([path])
    if manifests.templates or manifests.policies or manifests.bindings:
        raise InputError(f"--add-cluster {path}: contains other objects than clusters; pass those with -f")
    yield from manifests.every_cluster
