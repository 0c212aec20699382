"""What simulate and explain have in common: their input, and how to decide."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import reduce
from typing import Any

import click

from berthmaster.manifests import Manifests, load
from berthmaster.model.template import ReplicaPath
from berthmaster.runtime.feature_gates import WORKLOAD_AFFINITY, FeatureGates, gates_help
from berthmaster.scheduling.plugins import built_in, with_third_parties
from berthmaster.scheduling.scheduler import Profile
from berthmaster.simulation.world import ResourceName

_GATES = (WORKLOAD_AFFINITY,)


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what to schedule, and how."""
    manifests = click.option(
        "-f", "--filename", "paths", multiple=True, metavar="PATH",
        help="Manifests: a file, a folder, or - for stdin. Repeatable.",
    )  # fmt: skip
    return manifests(deciding_options(command))


def deciding_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how to decide, wherever the workloads come from."""
    options = (
        click.option(
            "--replica-path", "replica_paths", multiple=True, metavar="GROUP/VERSION/KIND=PATH[,PATH]",
            help="Where a custom resource keeps its replicas, and its pod template. Repeatable.",
        ),
        click.option(
            "--plugins", default="*", show_default=True, metavar="LIST",
            help="Filter and score plugins, as in karmada-scheduler: * for all, NAME, -NAME.",
        ),
        click.option(
            "--feature-gates", default="", metavar="LIST", help=f"NAME=true|false. {gates_help(_GATES)}.",
        ),
        click.option(
            "--enable-empty-workload-propagation", "keep_empty", is_flag=True,
            help="Clusters that are selected but get no replicas stay in the assignment.",
        ),
    )  # fmt: skip
    return reduce(lambda decorated, option: option(decorated), reversed(options), command)


def workload_affinity_on(feature_gates: str) -> bool:
    """Whether the gate WorkloadAffinity is on, the only one that decisions know.

    Raises:
        InputError: the gates are not written as Kubernetes writes them, or unknown.
    """
    return FeatureGates.parse(feature_gates, _GATES).on(WORKLOAD_AFFINITY)


def profile(plugins: str, *, workload_affinity: bool, keep_empty: bool) -> Profile:
    """How to decide, third parties' plugins included."""
    known = with_third_parties(built_in(workload_affinity=workload_affinity))
    return Profile(known.selected([switch.strip() for switch in plugins.split(",") if switch.strip()]), keep_empty)


def read_manifests(paths: tuple[str, ...], replica_paths: tuple[str, ...]) -> tuple[Manifests, list[ReplicaPath]]:
    """What to schedule, and where custom resources keep their replicas.

    Raises:
        InputError: something in it is wrong.
    """
    if not paths:
        raise click.UsageError("nothing to schedule: name manifests with -f PATH (- for stdin)")
    parsed = [ReplicaPath.parse(text) for text in replica_paths]
    return load(paths, stdin=sys.stdin.buffer), parsed


def resource_name(text: str) -> ResourceName:
    """A resource as a command line names it.

    Raises:
        click.UsageError: it is not named so.
    """
    name = ResourceName.parse(text)
    if name is None:
        raise click.UsageError(f"{text!r} names no resource; accepted is KIND/NAME or NAMESPACE/KIND/NAME")
    return name


def now() -> datetime:
    """The time, to the second, as the API server records it."""
    return datetime.now(UTC).replace(microsecond=0)
