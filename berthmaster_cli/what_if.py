"""The what-if options of simulate and explain. Each change has the effect that it has in Karmada."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import click

from berthmaster.manifests import load_manifests
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import InputError
from berthmaster.simulation.change_texts import label_change, scale_change, taint_change
from berthmaster.simulation.changes import AddCluster, Down, RemoveCluster, Reschedule, Up
from berthmaster.simulation.world import Change
from berthmaster_cli.options import option_group

_EXISTING: Final = click.Path(exists=True)
CHANGES_HELP: Final = (
    "Changes apply in this order: clusters that join, recover, get or lose labels and taints, leave and fail; then "
    "scales and rescheduling. Workloads are scheduled again only where Karmada would do so."
)

change_options: Final = option_group(
    click.option(
        "--down", multiple=True, metavar="CLUSTER",
        help="Change: the cluster is lost. What moves then depends on --failover. Repeatable.",
    ),
    click.option("--up", multiple=True, metavar="CLUSTER", help="Change: the cluster is ready again. Repeatable."),
    click.option(
        "--taint", multiple=True, metavar="CLUSTER=KEY[=VALUE]:EFFECT",
        help="Change: the cluster gets a taint, or loses it with CLUSTER=KEY[:EFFECT]-. NoExecute evicts as --failover "
        "says. Repeatable.",
    ),
    click.option(
        "--label", multiple=True, metavar="CLUSTER=KEY=VALUE",
        help="Change: the cluster gets a label, or loses it with CLUSTER=KEY-. Repeatable.",
    ),
    click.option(
        "--add-cluster", "added", multiple=True, type=_EXISTING, metavar="FILE",
        help="Change: the clusters of a manifest join. Repeatable.",
    ),
    click.option(
        "--remove", "removed", multiple=True, metavar="CLUSTER",
        help="Change: the cluster leaves, as with `karmadactl unjoin`. Its copies are deleted first. Repeatable.",
    ),
    click.option(
        "--scale", multiple=True, metavar="[NAMESPACE/]KIND/NAME=N",
        help="Change: the workload gets N replicas. Repeatable.",
    ),
    click.option(
        "--reschedule", is_flag=True, help="Change: all workloads are rescheduled, as by a WorkloadRebalancer.",
    ),
)  # fmt: skip

shared_capacity_option: Final = click.option(
    "--shared-capacity", is_flag=True,
    help="Decisions see the replicas that others add. By default each sees only what clusters report, as in Karmada.",
)  # fmt: skip


def changes_from(given: Mapping[str, Any]) -> list[Change]:
    """Return the changes of ``change_options`` in the order of ``CHANGES_HELP``.

    Raises:
        click.UsageError: a change has an invalid form.
        InputError: a manifest of a cluster is invalid.
    """
    both = sorted({*given["down"], *given["removed"]} & set(given["up"]))
    if both:
        option = "--down" if both[0] in given["down"] else "--remove"
        raise click.UsageError(f"{option} {both[0]} and --up {both[0]} contradict each other; leave one of them out")
    return [
        *(AddCluster(cluster) for path in given["added"] for cluster in _clusters(path)),
        *(Up(name) for name in given["up"]),
        *(_read("--label", text, label_change) for text in given["label"]),
        *(_read("--taint", text, taint_change) for text in given["taint"]),
        *(RemoveCluster(name) for name in given["removed"]),
        *(Down(name) for name in given["down"]),
        *(_read("--scale", text, scale_change) for text in given["scale"]),
        *([Reschedule()] if given["reschedule"] else []),
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
