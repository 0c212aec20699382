"""Where the manifests of simulate and explain come from: files, a control plane, or files over a control plane."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from berthmaster.manifests import Manifests, load_manifests, manifests_of, overlaid, read_documents
from berthmaster.manifests.document import Document
from berthmaster.model.errors import InputError
from berthmaster.model.replicas import ReplicaPath
from berthmaster.simulation.workload import ResourceName
from berthmaster_cli.inputs import SourceFlags
from berthmaster_cli.names import name_in
from berthmaster_cli.options import KubeconfigFlags, LeaseFlags, ReadTimeoutFlags
from berthmaster_cli.output import complain_about

if TYPE_CHECKING:
    from berthmaster.kube.kubeconfig import ClusterAccess
    from berthmaster_cli.live.collections import ReadLimits
    from berthmaster_cli.live.source import LiveDocuments


def read_manifests(flags: SourceFlags) -> tuple[Manifests, list[ReplicaPath]]:
    """Read the manifests of a simulation, and the fields that hold the replicas of custom resources.

    Without ``-f`` it reads a control plane. With ``-f`` it reads one only if an option asks for it, and lays the files
    over what is stored there.
    """
    replica_paths = [ReplicaPath.parse(text) for text in flags.replica_paths]
    if not reads_live(flags):
        return of_namespace(_from_files(flags), flags.namespace), replica_paths
    from berthmaster_cli.live.source import live_fleet  # noqa: PLC0415 - files need no client

    over = _documents(flags)
    live = live_fleet(find_control_plane(flags, asked=flags.live), read_limits(flags), flags.namespace, over)
    return of_namespace(_laid_over(live, over, flags), flags.namespace), replica_paths


def read_workload_manifests(
    flags: SourceFlags, name: ResourceName, *, workload_affinity: bool, with_others: bool = False
) -> tuple[Manifests, list[ReplicaPath], ResourceName]:
    """Read the manifests that concern one workload, as ``read_manifests``.

    Returns:
        The manifests, the fields that hold replicas, and the name with its kind.
    """
    replica_paths = [ReplicaPath.parse(text) for text in flags.replica_paths]
    if not reads_live(flags):
        manifests = _from_files(flags)
        return manifests, replica_paths, name_in(manifests, name, flags.namespace)
    from berthmaster_cli.live.source import live_workload  # noqa: PLC0415 - files need no client

    over = _documents(flags)
    live = live_workload(
        find_control_plane(flags, asked=flags.live),
        read_limits(flags),
        name,
        flags.namespace,
        over,
        with_peers=workload_affinity,
        with_others=with_others or bool(over),
    )
    return _laid_over(live, over, flags), replica_paths, live.name or name


def reads_live(flags: SourceFlags) -> bool:
    """Return whether the options ask for a control plane."""
    live = not flags.paths or flags.live or flags.kubeconfig is not None or flags.context is not None
    if flags.dump is not None and not live:
        raise click.UsageError("--dump writes what a control plane holds; add --live, --kubeconfig or --context")
    if flags.redact and flags.dump is None:
        raise click.UsageError("--redact needs --dump")
    return live


def of_namespace(manifests: Manifests, namespace: str) -> Manifests:
    """Return the manifests without workloads of other namespaces. An empty namespace means all."""
    if not namespace:
        return manifests
    return replace(
        manifests,
        templates=[each for each in manifests.templates if each.namespace == namespace],
        bindings=[each for each in manifests.bindings if each.metadata.namespace == namespace],
        ignored=[each for each in manifests.ignored if each.document.namespace == namespace],
    )


def _from_files(flags: SourceFlags) -> Manifests:
    manifests = load_manifests(
        flags.paths, stdin=sys.stdin.buffer, lenient=flags.lenient, hold_unknown=flags.unknown_fields == "hold"
    )
    complain_about(manifests.gaps)
    return manifests


def _laid_over(live: "LiveDocuments", over: list[Document], flags: SourceFlags) -> Manifests:
    """Write the dump, and return the manifests of the stored objects with files laid over them."""
    from berthmaster_cli.live.source import write_dump  # noqa: PLC0415 - files need no client

    if flags.dump is not None:
        write_dump(live, flags.dump, redact=flags.redact)
    manifests = manifests_of(
        overlaid(live.all(), over),
        live.snapshot.name,
        lenient=flags.lenient,
        hold_unknown=flags.unknown_fields == "hold",
    )
    complain_about(manifests.gaps)
    return manifests


def _documents(flags: SourceFlags) -> list[Document]:
    read = read_documents(flags.paths, stdin=sys.stdin.buffer) if flags.paths else ()
    return [document.with_namespace() for document in read]


def find_control_plane(
    flags: KubeconfigFlags, instead: str = "manifests with -f PATH", *, asked: bool = False
) -> "ClusterAccess":
    """Return the access to the control plane that the options ask for.

    Args:
        instead: what to name if there is no access and no option asks for one.
    """
    from berthmaster.kube.kubeconfig import find_access  # noqa: PLC0415 - files need no client

    try:
        return find_access(flags.kubeconfig, flags.context)
    except InputError as error:
        if flags.kubeconfig is not None or flags.context is not None or asked:
            raise
        raise InputError(f"{error}, or {instead}") from None


def read_limits(flags: ReadTimeoutFlags) -> "ReadLimits":
    """Return the limits of reading a control plane that the options ask for."""
    from berthmaster_cli.live.collections import ReadLimits  # noqa: PLC0415 - files need no client

    lease = flags.lease if isinstance(flags, LeaseFlags) else None
    return ReadLimits(timeout_s=flags.read_timeout_s, lease=lease)
