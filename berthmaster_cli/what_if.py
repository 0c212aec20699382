"""The what-if options of simulate and explain. Each change has the effect that it has in Karmada."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from berthmaster.manifests import Manifests, load_manifests
from berthmaster.model.cluster import EFFECTS, Cluster, Taint
from berthmaster.model.errors import InputError
from berthmaster.model.meta import INT32_MAX
from berthmaster.model.selector import is_label_key, is_label_value
from berthmaster.simulation.changes import AddLabel, AddTaint, Change, Down, Reschedule, Scale
from berthmaster.simulation.cluster_changes import AddCluster, RemoveCluster, RemoveLabel, RemoveTaint, Up
from berthmaster_cli.names import name_in, resource_name
from berthmaster_cli.options import option_group

_REMOVED: Final = "-"
_EXISTING: Final = click.Path(exists=True)
CHANGES_HELP: Final = (
    "Changes apply in this order: clusters that join, recover, get or lose labels and taints, leave and fail; then "
    "scales and rescheduling. Workloads are scheduled again only where Karmada would do so."
)

change_options: Final = option_group(
    click.option("--down", multiple=True, metavar="CLUSTER", help="Change: the cluster is lost. Repeatable."),
    click.option("--up", multiple=True, metavar="CLUSTER", help="Change: the cluster is ready again. Repeatable."),
    click.option(
        "--taint", multiple=True, metavar="CLUSTER=KEY[=VALUE]:EFFECT",
        help="Change: the cluster gets a taint, or loses it with CLUSTER=KEY[:EFFECT]-. Repeatable.",
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
        help="Change: the cluster leaves, as with `karmadactl unjoin`. Repeatable.",
    ),
    click.option(
        "--scale", multiple=True, metavar="[NAMESPACE/]KIND/NAME=N",
        help="Change: the workload gets N replicas. Repeatable.",
    ),
    click.option("--reschedule", is_flag=True, help="Change: all are rescheduled, as by a WorkloadRebalancer."),
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
    return [
        *(AddCluster(cluster) for path in given["added"] for cluster in _clusters(path)),
        *(Up(name) for name in given["up"]),
        *(_label(text) for text in given["label"]),
        *(_taint(text) for text in given["taint"]),
        *(RemoveCluster(name) for name in given["removed"]),
        *(Down(name) for name in given["down"]),
        *(_scale(text) for text in given["scale"]),
        *([Reschedule()] if given["reschedule"] else []),
    ]


def _clusters(path: str) -> Iterator[Cluster]:
    manifests = load_manifests([path])
    if manifests.templates or manifests.policies or manifests.bindings:
        raise InputError(f"--add-cluster {path}: contains other objects than clusters; pass those with -f")
    yield from manifests.clusters or manifests.federation.clusters


def _label(text: str) -> AddLabel | RemoveLabel:
    cluster, _, pair = text.partition("=")
    key, equals, value = pair.partition("=")
    if cluster and not equals and is_label_key(key.removesuffix(_REMOVED)) and key.endswith(_REMOVED):
        return RemoveLabel(cluster, key.removesuffix(_REMOVED))
    if not (cluster and equals and is_label_key(key) and is_label_value(value)):
        accepted = "CLUSTER=KEY=VALUE, for example member1=env=prod, or CLUSTER=KEY- to remove the label"
        raise click.UsageError(f"--label {text!r}: accepted is {accepted}")
    return AddLabel(cluster, key, value)


def _taint(text: str) -> AddTaint | RemoveTaint:
    cluster, _, rest = text.partition("=")
    if rest.endswith(_REMOVED):
        key, _, effect = rest.removesuffix(_REMOVED).partition(":")
        if cluster and is_label_key(key) and effect in {"", *EFFECTS}:
            return RemoveTaint(cluster, key, effect)
    pair, _, effect = rest.rpartition(":")
    key, _, value = pair.partition("=")
    if not (cluster and effect in EFFECTS and is_label_key(key) and is_label_value(value)):
        accepted = "CLUSTER=KEY[=VALUE]:EFFECT, or CLUSTER=KEY[:EFFECT]- to remove the taint"
        raise click.UsageError(f"--taint {text!r}: accepted is {accepted}; the effects are {', '.join(EFFECTS)}")
    return AddTaint(cluster, Taint(key=key, value=value, effect=effect))


def _scale(text: str) -> Scale:
    name, _, number = text.rpartition("=")
    if not (name and number.isascii() and number.isdigit() and int(number) <= INT32_MAX):
        raise click.UsageError(f"--scale {text!r}: accepted is [NAMESPACE/]KIND/NAME=N, N from 0 to {INT32_MAX}")
    return Scale(name_in(Manifests(), resource_name(name), ""), int(number))
