"""Changed objects of files as a change set: checked as an apply would check them.

The objects that would be deleted: those that ``--delete`` names, and those that ``--prune`` finds.
"""

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

from berthmaster.interpreters.worker import ScriptProcess
from berthmaster.manifests import Document, Manifests
from berthmaster.manifests.files import Identity
from berthmaster.manifests.loader import objects_of
from berthmaster.model.errors import FieldError, InputError, name_list
from berthmaster.model.interpretation import check_replica_paths
from berthmaster.model.kinds import BUILT_IN_NAMES, group_of, reason_not_propagated, resolve
from berthmaster.model.policy import POLICY_KINDS, PolicyReference
from berthmaster.model.replicas import ReplicaPath, template_of
from berthmaster.model.selector import parse_selector
from berthmaster.simulation.change_set import ChangeSet
from berthmaster.simulation.detector import WorkloadBuilder
from berthmaster.simulation.workload import ResourceName, SimulatedWorkload
from berthmaster.simulation.world import World
from berthmaster_cli.inputs import check_policies, interpreter_of, name_in, resource_name
from berthmaster_cli.output import complain

_CLUSTER: Final = "Cluster"
_GROUPS: Final = frozenset({"policy.karmada.io", "cluster.karmada.io"})


class Deletions(NamedTuple):
    """What is deleted."""

    policies: tuple[PolicyReference, ...] = ()
    clusters: tuple[str, ...] = ()
    workloads: tuple[ResourceName, ...] = ()
    overrides: tuple[str, ...] = ()

    def joined(self, other: "Deletions") -> "Deletions":
        return Deletions(*(tuple(dict.fromkeys([*mine, *theirs])) for mine, theirs in zip(self, other, strict=True)))  # type: ignore[arg-type]


def deletions(texts: Iterable[str], manifests: Manifests) -> Deletions:
    """Return what ``--delete`` names.

    Args:
        texts: ``KIND/NAME`` or ``NAMESPACE/KIND/NAME``, with any name of the kind that kubectl accepts.
    """
    found = Deletions()
    for text in texts:
        name = resource_name(text)
        kind = _karmada_kind(name.kind)
        if kind in POLICY_KINDS:
            found = found.joined(Deletions(policies=(_policy(name, kind, manifests),)))
        elif kind == _CLUSTER:
            found = found.joined(Deletions(clusters=(_cluster(name, manifests),)))
        elif kind in _OVERRIDES:
            found = found.joined(Deletions(overrides=(f"{kind} {name.name}",)))
        else:
            found = found.joined(Deletions(workloads=(_workload(name, manifests),)))
    return found


def pruned(selector: str, documents: Iterable[Document], kept: Collection[Identity]) -> Deletions:
    """Return the policies and workloads that ``kubectl apply --prune`` would delete."""
    wanted = parse_selector(selector)
    policies, workloads = [], []
    for document in documents:
        if document.identity in kept or not _is_prunable(document):
            continue
        try:
            template = template_of(document.raw)
        except FieldError as error:
            raise document.error(error) from None
        if not wanted.matches(template.labels):
            continue
        if group_of(document.api_version) == "policy.karmada.io":
            namespace = "" if document.kind == POLICY_KINDS[1] else document.namespace
            policies.append(PolicyReference(document.kind, namespace, document.name))  # type: ignore[arg-type]
        else:
            workloads.append(ResourceName(document.namespace, document.kind, document.name))
    return Deletions(policies=tuple(policies), workloads=tuple(workloads))


def _is_prunable(document: Document) -> bool:
    if group_of(document.api_version) == "policy.karmada.io":
        return document.kind in POLICY_KINDS
    return reason_not_propagated(document.api_version, document.kind, document.namespace) is None


def _karmada_kind(text: str) -> str:
    names = resolve(text, [each for each in BUILT_IN_NAMES if each.group in _GROUPS])
    if names is not None:
        return names.kind
    return next((each for each in (*POLICY_KINDS, *_OVERRIDES, _CLUSTER) if each.lower() == text.lower()), "")


def _policy(name: ResourceName, kind: str, manifests: Manifests) -> PolicyReference:
    same_kind = [each.reference for each in manifests.policies if each.kind == kind]
    found = [each for each in same_kind if each.name == name.name and name.namespace in {"", each.namespace}]
    if len(found) == 1:
        return found[0]
    if found:
        places = name_list([f"{each.namespace}/{kind}/{each.name}" for each in found])
        raise InputError(f"--delete {name}: {len(found)} policies have this name; name one of {places}")
    raise InputError(f"--delete {name}: there is no such {kind}{_hint(name.name, [each.name for each in same_kind])}")


def _cluster(name: ResourceName, manifests: Manifests) -> str:
    known = [each.name for each in manifests.clusters]
    if name.name not in known:
        raise InputError(f"--delete {name}: there is no such Cluster{_hint(name.name, known)}")
    return name.name


def _workload(name: ResourceName, manifests: Manifests) -> ResourceName:
    meant = name_in(manifests, name, "")
    known = [ResourceName(each.namespace, each.kind, each.name) for each in manifests.templates]
    bound = [each.spec.resource for each in manifests.bindings]
    known += [ResourceName(each.namespace, each.kind, each.name) for each in bound]
    found = {
        each for each in known
        if (each.kind.lower(), each.name) == (meant.kind.lower(), meant.name)
        and meant.namespace in {"", each.namespace}
    }  # fmt: skip
    if len(found) == 1:
        return found.pop()
    if found:
        raise InputError(f"--delete {name}: {len(found)} resources have this name; name it as NAMESPACE/KIND/NAME")
    raise InputError(f"--delete {name}: there is no such resource{_hint(str(meant), [str(each) for each in known])}")


def _hint(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


_OVERRIDES: Final = ("OverridePolicy", "ClusterOverridePolicy")
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
        world: the world of the control plane. Its assumptions count.

    Raises:
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
