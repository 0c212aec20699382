"""What ``berthmaster plan`` compares: the control plane as it is, and the objects that would be applied and deleted."""

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from berthmaster.manifests import Document, Manifests, manifests_of, overlaid, read_documents
from berthmaster.model.errors import InputError
from berthmaster.model.gaps import Gap
from berthmaster.model.replicas import ReplicaPath
from berthmaster.simulation.change_set import ChangeSet
from berthmaster.simulation.world import World
from berthmaster_cli.output import complain_about
from berthmaster_cli.plan.changes import change_set, checked_objects
from berthmaster_cli.plan.deletions import deletions, pruned
from berthmaster_cli.present import present_world
from berthmaster_cli.sources import find_control_plane, read_limits


class PlanInput(NamedTuple):
    """The world before the changes, and the changes.

    Attributes:
        world: the control plane.
        changes: what would be applied and deleted.
        gaps: what is not known and can change the answer.
        manifests: the objects that the world was built from.
    """

    world: World
    changes: ChangeSet
    gaps: list[Gap]
    manifests: Manifests


def read_input(given: Mapping[str, Any], *, workload_affinity: bool) -> PlanInput:
    """Read the control plane, or the files of ``--against``, and the changed objects.

    Args:
        given: the values of the command's options.
        workload_affinity: whether the gate ``WorkloadAffinity`` is on.

    Raises:
        click.UsageError: options contradict each other, or there is nothing to plan.
        ServiceError: the control plane does not respond.
        InputError: an object is invalid, or one that is to be deleted does not exist.
    """
    changed = _changed_documents(given)
    base, origin = _base_documents(given, changed)
    reading: Any = {"lenient": given["lenient"], "hold_unknown": given["unknown_fields"] == "hold"}
    manifests = manifests_of(base, origin, **reading)
    if manifests.federation.clusters:
        raise InputError(f"{origin}: plans are for Karmada only; use `berthmaster simulate` for KubeAdmiral")
    paths = [ReplicaPath.parse(text) for text in given["replica_paths"]]
    identities = {each.identity for each in changed}
    over = overlaid([each for each in base if each.identity in identities], changed)
    objects = checked_objects(over, **reading)
    removed = deletions(given["deleted"], manifests)
    if given["prune"]:
        removed = removed.joined(pruned(given["selector"], base, identities))
    world = present_world(manifests, paths, given, workload_affinity=workload_affinity)
    changes = change_set(objects, removed, manifests, paths, world)
    return PlanInput(world, changes, _known_gaps(manifests), manifests)


def _known_gaps(manifests: Manifests) -> list[Gap]:
    """Return the gaps that can change a plan, and report the others on standard error."""
    complain_about(gap for gap in manifests.gaps if not gap.changes_answers)
    return [gap for gap in manifests.gaps if gap.changes_answers]


def _changed_documents(given: Mapping[str, Any]) -> list[Document]:
    if given["prune"] != bool(given["selector"]):
        raise click.UsageError("--prune and -l go together: -l selects the objects that --prune deletes")
    if not given["paths"] and not given["deleted"]:
        raise click.UsageError("name the objects that would be applied with -f, or deleted with --delete")
    live_options = [name for name in ("kubeconfig", "context") if given[name] is not None]
    if given["against"] and live_options:
        raise click.UsageError(f"--against cannot be combined with --{live_options[0]}")
    if "-" in given["paths"] and "-" in given["against"]:
        raise click.UsageError("-f and --against cannot both be standard input")
    read = read_documents(given["paths"], stdin=sys.stdin.buffer) if given["paths"] else ()
    return [document.with_namespace() for document in read]


def _base_documents(given: Mapping[str, Any], changed: list[Document]) -> tuple[list[Document], str]:
    """Return the objects of the control plane as it is, and where they come from."""
    if given["against"]:
        documents = [each.with_namespace() for each in read_documents(given["against"], stdin=sys.stdin.buffer)]
        return documents, ", ".join(given["against"])
    from berthmaster_cli.live.source import live_fleet  # noqa: PLC0415 - files need no client

    access = find_control_plane(given, "its objects with --against FILE")
    live = live_fleet(access, read_limits(given), "", changed)
    return live.all(), live.snapshot.name
