"""The what-if options of simulate and explain. Each change has the effect that it has in Karmada."""

from collections.abc import Callable, Iterator
from typing import Final

import click

from berthmaster.manifests import load_manifests
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import InputError
from berthmaster.simulation.changes import (
    AddCluster,
    Down,
    RemoveCluster,
    Reschedule,
    Up,
    label_change,
    scale_change,
    taint_change,
)
from berthmaster.simulation.world import Change
from berthmaster_cli.flags import Flags, option

_EXISTING: Final = click.Path(exists=True)
CHANGES_HELP: Final = (
    "Changes apply in this order: clusters that join, recover, get or lose labels and taints, leave and fail; then "
    "scales and rescheduling. Workloads are scheduled again only where Karmada would do so."
)


class ChangeFlags(Flags):
    """The changes of a simulation."""

    down: tuple[str, ...] = option(
        "Change: the cluster is lost. What moves then depends on --failover. Repeatable.", metavar="CLUSTER"
    )
    up: tuple[str, ...] = option("Change: the cluster is ready again. Repeatable.", metavar="CLUSTER")
    taint: tuple[str, ...] = option(
        "Change: the cluster gets a taint, or loses it with CLUSTER=KEY[:EFFECT]-. NoExecute evicts as --failover "
        "says. Repeatable.",
        metavar="CLUSTER=KEY[=VALUE]:EFFECT",
    )  # fmt: skip
    label: tuple[str, ...] = option(
        "Change: the cluster gets a label, or loses it with CLUSTER=KEY-. Repeatable.", metavar="CLUSTER=KEY=VALUE"
    )
    added: tuple[str, ...] = option(
        "Change: the clusters of a manifest join. Repeatable.",
        type=_EXISTING, names=("--add-cluster",), metavar="FILE",
    )  # fmt: skip
    removed: tuple[str, ...] = option(
        "Change: the cluster leaves, as with `karmadactl unjoin`. Its copies are deleted first. Repeatable.",
        names=("--remove",), metavar="CLUSTER",
    )  # fmt: skip
    scale: tuple[str, ...] = option(
        "Change: the workload gets N replicas. Repeatable.", metavar="[NAMESPACE/]KIND/NAME=N"
    )
    reschedule: bool = option("Change: all workloads are rescheduled, as by a WorkloadRebalancer.")


class DuplicateLimitsFlags(Flags):
    """How a federation of KubeAdmiral is simulated."""

    duplicate_limits: bool = option(
        "For KubeAdmiral: minReplicas and maxReplicas limit the replicas of each cluster in mode Duplicate, as its "
        "manual says. Its scheduler ignores them.",
    )  # fmt: skip


class SharedCapacityFlags(Flags):
    """Whether decisions share capacity."""

    shared_capacity: bool = option(
        "Decisions see the replicas that others add. By default each sees only what clusters report, as in Karmada."
    )


def changes_from(flags: ChangeFlags) -> list[Change]:
    """Return the changes in the order of ``CHANGES_HELP``."""
    both = sorted({*flags.down, *flags.removed} & set(flags.up))
    if both:
        option = "--down" if both[0] in flags.down else "--remove"
        raise click.UsageError(f"{option} {both[0]} and --up {both[0]} contradict each other; leave one of them out")
    return [
        *(AddCluster(cluster) for path in flags.added for cluster in _clusters(path)),
        *(Up(name) for name in flags.up),
        *(_read("--label", text, label_change) for text in flags.label),
        *(_read("--taint", text, taint_change) for text in flags.taint),
        *(RemoveCluster(name) for name in flags.removed),
        *(Down(name) for name in flags.down),
        *(_read("--scale", text, scale_change) for text in flags.scale),
        *([Reschedule()] if flags.reschedule else []),
    ]


def _read(option: str, text: str, read: Callable[[str], Change]) -> Change:
    try:
        return read(text)
    except InputError as error:
        raise click.UsageError(f"{option} {error}") from None


def _clusters(path: str) -> Iterator[Cluster]:
    manifests = load_manifests([path])
    if manifests.templates or manifests.policies or manifests.bindings:
        raise InputError(f"--add-cluster {path}: contains other objects than clusters; pass those with -f")
    yield from manifests.clusters or manifests.federation.clusters
