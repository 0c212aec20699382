"""The objects that a plan would apply and delete: what it accepts of them, and the change set that they are."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from berthmaster.manifests import Document, Manifests
from berthmaster.manifests.document import Identity
from berthmaster.manifests.loader import objects_of
from berthmaster.model.control_planes import CONTROL_PLANES, KARMADA
from berthmaster.model.errors import FieldError, InputError, name_list
from berthmaster.model.hints import closest
from berthmaster.model.interpretation import check_replica_paths
from berthmaster.model.kind_names import BUILT_IN_NAMES, resolve
from berthmaster.model.kinds import group_of
from berthmaster.model.overrides import OVERRIDE_KINDS, override_policy
from berthmaster.model.policy import POLICY_KINDS, PolicyReference
from berthmaster.model.replicas import ReplicaPath, template_of
from berthmaster.model.selector import parse_selector
from berthmaster.model.skipped_resources import reason_not_propagated
from berthmaster.simulation.change_set import ChangeSet
from berthmaster.simulation.detector import WorkloadBuilder
from berthmaster.simulation.workload import ResourceName, SimulatedWorkload
from berthmaster.simulation.world import World
from berthmaster_cli import inputs
from berthmaster_cli.ignored import REPORTED_APART
from berthmaster_cli.output import complain
from berthmaster_cli.policy_checks import check_policies
from berthmaster_cli.resource_names import name_in, resource_name
from berthmaster_cli.source_options import PresentFlags

_NAMED: Final = 10
_CLUSTER: Final = "Cluster"
_GROUPS: Final = frozenset({"policy.karmada.io", "cluster.karmada.io"})
_REFUSED: Final = {
    "work.karmada.io": "Karmada writes it: change the policy or the workload",
    "apps.karmada.io": "`berthmaster simulate -f` shows what it reschedules",
    "config.karmada.io": "a plan does not know what a change of an interpreter does",
    **{
        group: f"plans are for Karmada only; use `berthmaster simulate` for {plane.name}"
        for plane in CONTROL_PLANES
        if plane is not KARMADA
        for group in plane.kinds
    },
    "berthmaster.io": "name a dump with --against",
}
"""The API groups whose objects no plan can change, and what to do instead."""


@dataclass(slots=True)
class Deletions:
    """What would be deleted."""

    policies: list[PolicyReference] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)
    workloads: list[ResourceName] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)

    def name(self, text: str, manifests: Manifests, namespace: str) -> None:
        """Add what a value of ``--delete`` names: ``[NAMESPACE/]KIND/NAME``, with any name of the kind.

        ``namespace``: the one of -n, for a name without a namespace; empty if there must be one such object only.
        """
        name = resource_name(text)
        kind = _karmada_kind(name.kind)
        if kind in POLICY_KINDS:
            self.policies.append(_policy(name, kind, manifests, namespace))
        elif kind == _CLUSTER:
            known = [each.name for each in manifests.clusters]
            if name.name not in known:
                raise InputError(f"--delete {name}: there is no such Cluster{_hint(name.name, known)}")
            self.clusters.append(name.name)
        elif kind in OVERRIDE_KINDS:
            self.overrides.append(_override(name, kind, manifests, namespace))
        else:
            self.workloads.append(_workload(name, manifests, namespace))

    def prune(self, selector: str, documents: Iterable[Document], kept: Collection[Identity]) -> None:
        """Add the policies and workloads that ``kubectl apply --prune`` would delete."""
        wanted = parse_selector(selector)
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
                self.policies.append(PolicyReference(document.kind, namespace, document.name))  # type: ignore[arg-type]
            else:
                self.workloads.append(ResourceName(document.namespace, document.kind, document.name))


def _is_prunable(document: Document) -> bool:
    if group_of(document.api_version) == "policy.karmada.io":
        return document.kind in POLICY_KINDS
    return reason_not_propagated(document.api_version, document.kind, document.namespace) is None


def _karmada_kind(text: str) -> str:
    names = resolve(text, [each for each in BUILT_IN_NAMES if each.group in _GROUPS])
    if names is not None:
        return names.kind
    return next((each for each in (*POLICY_KINDS, *OVERRIDE_KINDS, _CLUSTER) if each.lower() == text.lower()), "")


def _policy(name: ResourceName, kind: str, manifests: Manifests, namespace: str) -> PolicyReference:
    same_kind = [each.reference for each in manifests.policies if each.kind == kind]
    wanted = name.namespace or (namespace if kind == POLICY_KINDS[0] else "")
    found = [each for each in same_kind if each.name == name.name and wanted in {"", each.namespace}]
    if len(found) == 1:
        return found[0]
    if found:
        places = name_list([f"{each.namespace}/{kind}/{each.name}" for each in found])
        raise InputError(f"--delete {name}: {len(found)} policies have this name; name one of {places}")
    raise InputError(f"--delete {name}: there is no such {kind}{_hint(name.name, [each.name for each in same_kind])}")


def _override(name: ResourceName, kind: str, manifests: Manifests, namespace: str) -> str:
    """Return the name of an override, as ``override_policy`` has it. One that was not read counts as named."""
    documents = (each.document for each in manifests.ignored if each.document.kind == kind)
    known = [each for each in documents if each.name == name.name]
    wanted = name.namespace or (namespace if kind == OVERRIDE_KINDS[0] else "")
    found = [each for each in known if wanted in {"", each.namespace}]
    if len(found) > 1:
        places = name_list([f"{each.namespace}/{kind}/{each.name}" for each in found])
        raise InputError(f"--delete {name}: {len(found)} overrides have this name; name one of {places}")
    return override_policy(found[0].raw).name if found else f"{kind} {'/'.join(filter(None, (wanted, name.name)))}"


def _workload(name: ResourceName, manifests: Manifests, namespace: str) -> ResourceName:
    meant = name_in(manifests, name, namespace)
    known = [ResourceName(each.namespace, each.kind, each.name) for each in manifests.templates]
    bound = [each.spec.resource for each in manifests.bindings]
    known += [ResourceName(each.namespace, each.kind, each.name) for each in bound]
    found = {each for each in known if meant.matches(each)}
    if len(found) == 1:
        return found.pop()
    if found:
        raise InputError(f"--delete {name}: {len(found)} resources have this name; name it as NAMESPACE/KIND/NAME")
    raise InputError(f"--delete {name}: there is no such resource{_hint(str(meant), [str(each) for each in known])}")


def _hint(name: str, known: Sequence[str]) -> str:
    close = closest(name, known)
    if close:
        return f"; did you mean {close}?"
    return f"; known are {name_list(sorted(known), _NAMED)}" if known else "; there is none"


def checked_objects(documents: Sequence[Document], flags: PresentFlags) -> Manifests:
    """Return the objects that would be applied: those of files, laid over those that they replace."""
    for document in documents:
        problem = _REFUSED.get(group_of(document.api_version))
        if problem is not None:
            raise document.error(FieldError("kind", f"{document.kind} cannot be planned: {problem}"))
    objects = objects_of(documents, **flags.reading)
    check_policies(objects, lenient=flags.lenient)
    for ignored in objects.ignored:
        if ignored.document.kind not in REPORTED_APART:
            complain(f"{ignored.document.place}: ignored: {ignored.reason}")
    for sentence in objects.warnings:
        complain(sentence)
    return objects


def change_set(
    objects: Manifests, removed: Deletions, manifests: Manifests, paths: Sequence[ReplicaPath], world: World
) -> ChangeSet:
    """Return the change set of objects that would be applied, and of those that would be deleted."""
    written = {each.reference for each in objects.policies}
    both = next((each for each in removed.policies if each in written), None)
    if both is not None:
        raise InputError(f"--delete {both}: a file of -f would apply it; leave one of them out")
    raws = [each.document.raw for each in objects.ignored if each.document.kind in OVERRIDE_KINDS]
    overrides = {each.name: each for each in map(override_policy, raws)}
    deleted = tuple(each for each in dict.fromkeys(removed.overrides) if each not in overrides)
    return ChangeSet(
        policies=tuple(objects.policies),
        deleted_policies=tuple(dict.fromkeys(removed.policies)),
        clusters=tuple(objects.clusters),
        deleted_clusters=tuple(dict.fromkeys(removed.clusters)),
        workloads=tuple(_workloads(objects, manifests, paths, world)),
        deleted_workloads=tuple(dict.fromkeys(removed.workloads)),
        overrides=tuple(overrides.values()),
        deleted_overrides=deleted,
        existence={**dict.fromkeys(objects.found, True), **dict.fromkeys(deleted, False)},
    )


def _workloads(
    objects: Manifests, manifests: Manifests, paths: Sequence[ReplicaPath], world: World
) -> Iterable[SimulatedWorkload]:
    if not objects.templates:
        return []
    check_replica_paths(paths, (each.raw for each in (*manifests.templates, *objects.templates)))
    with inputs.interpreter_of(manifests) as interpreter:
        builder = WorkloadBuilder(
            manifests,
            paths,
            interpreter,
            workload_affinity=world.workload_affinity,
            existing=manifests.existing.changed(dict.fromkeys(objects.found, True)),
            preempts=world.assumptions.preempts,
        )
        return [builder.of_template(document) for document in objects.templates]
