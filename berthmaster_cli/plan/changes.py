"""Changed objects of files as a change set: checked as an apply would check them."""

from collections.abc import Iterable, Sequence
from typing import Final

from berthmaster.interpreters.worker import ScriptProcess
from berthmaster.manifests import Document, Manifests
from berthmaster.manifests.loader import objects_of
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.interpretation import check_replica_paths
from berthmaster.model.kinds import group_of
from berthmaster.model.replicas import ReplicaPath
from berthmaster.simulation.change_set import ChangeSet
from berthmaster.simulation.present import WorkloadBuilder
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World
from berthmaster_cli.output import complain
from berthmaster_cli.plan.deletions import Deletions
from berthmaster_cli.present import check_policies, interpreter_of

_OVERRIDES: Final = frozenset({"OverridePolicy", "ClusterOverridePolicy"})
_REFUSED: Final = {
    "work.karmada.io": "Karmada writes it: change the policy or the workload",
    "apps.karmada.io": "`berthmaster simulate -f` shows what it reschedules",
    "config.karmada.io": "a plan does not know what a change of an interpreter does",
    "core.kubeadmiral.io": "plans are for Karmada only; use `berthmaster simulate` for KubeAdmiral",
    "berthmaster.io": "name a dump with --against",
}
"""The API groups whose objects no plan can change, and what to do instead."""


def checked_objects(documents: Sequence[Document], *, lenient: bool, hold_unknown: bool = True) -> Manifests:
    """Return the objects that would be applied.

    Args:
        documents: the objects of files, laid over those that they replace.
        lenient: whether misspelled fields, and policies that the webhook would refuse, are only reported.
        hold_unknown: whether unknown fields make a placement an ``UnsupportedPlacement``.

    Raises:
        ManifestError: an object is invalid, or a plan cannot change objects of its kind.
    """
    for document in documents:
        problem = _REFUSED.get(group_of(document.api_version))
        if problem is not None:
            raise document.error(FieldError("kind", f"{document.kind} cannot be planned: {problem}"))
    objects = objects_of(documents, lenient=lenient, hold_unknown=hold_unknown)
    check_policies(objects, lenient=lenient)
    for ignored in objects.ignored:
        if ignored.document.kind not in _OVERRIDES:
            complain(f"{ignored.document.place}: ignored: {ignored.reason}")
    for sentence in objects.warnings:
        complain(sentence)
    return objects


def change_set(
    objects: Manifests,
    removed: Deletions,
    manifests: Manifests,
    replica_paths: Sequence[ReplicaPath],
    world: World,
) -> ChangeSet:
    """Return the change set of objects that would be applied, and of those that would be deleted.

    Args:
        objects: the objects that would be applied.
        removed: the objects that would be deleted.
        manifests: the objects of the control plane.
        replica_paths: the fields where custom resources keep their replicas.
        world: the world of the control plane. Its assumptions count.

    Raises:
        ManifestError: a field of a workload that affects decisions is invalid.
        InputError: a policy would be both applied and deleted.
    """
    written = {each.reference for each in objects.policies}
    overrides = [each.document for each in objects.ignored if each.document.kind in _OVERRIDES]
    for reference in removed.policies:
        if reference in written:
            raise InputError(f"--delete {reference}: a file of -f would apply it; leave one of them out")
    return ChangeSet(
        policies=tuple(objects.policies),
        deleted_policies=removed.policies,
        clusters=tuple(objects.clusters),
        deleted_clusters=removed.clusters,
        workloads=tuple(_workloads(objects, manifests, replica_paths, world)),
        deleted_workloads=removed.workloads,
        overrides=(*map(_text, overrides), *removed.overrides),
        existence={**dict.fromkeys(objects.found, True), **dict.fromkeys(removed.overrides, False)},
    )


def _workloads(
    objects: Manifests, manifests: Manifests, replica_paths: Sequence[ReplicaPath], world: World
) -> Iterable[SimulatedWorkload]:
    if not objects.templates:
        return []
    check_replica_paths(replica_paths, (each.raw for each in (*manifests.templates, *objects.templates)))
    with ScriptProcess() as run:
        interpreter = interpreter_of(manifests, run)
        builder = WorkloadBuilder(
            manifests,
            replica_paths,
            interpreter,
            workload_affinity=world.workload_affinity,
            existing=manifests.existing.changed(dict.fromkeys(objects.found, True)),
            preempts=world.assumptions.preempts,
        )
        return [builder.of_template(document) for document in objects.templates]


def _text(document: Document) -> str:
    return f"{document.kind} {'/'.join(filter(None, (document.namespace, document.name)))}"
