"""The workloads of a watched control plane, built from its bindings, templates and policies as the commands build them.

Workloads are built when a request needs them, outside the lock of the state, and kept until their binding, their
template or a policy changes.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple

from berthmaster.kube.informer import Informer
from berthmaster.manifests import Document, Manifests
from berthmaster.model.binding import Binding, ObjectReference, binding_name
from berthmaster.model.decode import convert
from berthmaster.model.dependencies import Dependency
from berthmaster.model.errors import FieldError, ManifestError
from berthmaster.model.gaps import Gap, GapKind
from berthmaster.model.holding import PolicyCatalog, may_be_held
from berthmaster.model.meta import Key
from berthmaster.model.overrides import OverridePolicy, replica_overrides
from berthmaster.model.policy import Policy, PolicyReference, ResourceSelector
from berthmaster.model.prerequisites import NOTHING_KNOWN, Existence, Prerequisite, prerequisites
from berthmaster.model.replicas import ReplicaPath, template_of
from berthmaster.model.skipped_resources import reason_not_propagated
from berthmaster.model.taint_policy import ClusterTaintPolicy
from berthmaster.simulation.change_set import WorkloadKey, key_of
from berthmaster.simulation.detector import WorkloadBuilder
from berthmaster.simulation.workload import SimulatedWorkload
from extender.state.controllers_lease import DEFAULT_LEASE
from extender.state.placed_index import ObservedIndex
from extender.state.templates import OVERRIDES, TAINT_POLICIES, KindName, TemplateWatches

_MAX_CHANGED: Final = 100
"""With more changed policies it is cheaper to build all workloads again than to find out which stay the same."""

OWNER: Final = "a8r.io/owner"
"""The annotation that names the owner by the convention of Kubernetes services for people."""
_MAX_RELATED: Final = 1000


class PolicyChanges(NamedTuple):
    """What differs between two sets of policies; ``all`` if it is cheaper to build everything again."""

    references: frozenset[PolicyReference]
    current: tuple[Policy, ...]
    all: bool = False

    def with_waiting(self, policies: Iterable[Policy], names: Collection[str]) -> "PolicyChanges":
        waiting = [each for each in policies if any(name in names for name in prerequisites((each,)))] if names else []
        return self._replace(
            references=self.references | {each.reference for each in waiting}, current=(*self.current, *waiting)
        )


def changed_policies(before: Sequence[Policy], after: Sequence[Policy]) -> PolicyChanges:
    """Return what differs. Policies that are the same objects are the same."""
    known = {each.reference: each for each in before}
    current = tuple(each for each in after if known.pop(each.reference, None) is not each)
    return PolicyChanges(
        frozenset(known) | {each.reference for each in current}, current, len(current) + len(known) > _MAX_CHANGED
    )


def may_select(policies: Iterable[Policy], template: Document) -> bool:
    """Return whether a policy may select a template. Cheap; only ``PolicyCatalog`` is exact."""
    for policy in policies:
        if not policy.cluster_scoped and policy.metadata.namespace != template.namespace:
            continue
        for selector in policy.spec.resource_selectors:
            if (
                selector.kind == template.kind
                and selector.api_version == template.api_version
                and selector.name in {"", template.name}
                and selector.namespace in {"", template.namespace}
                and (selector.name or _labels_may_match(selector, template))
            ):
                return True
    return False


def _may_select_unread(policy: Policy, kind: KindName, key: Key) -> bool:
    """Return whether a policy may select a template whose labels are not known."""
    namespace, name = key
    if not policy.cluster_scoped and policy.metadata.namespace != namespace:
        return False
    return any(
        (each.api_version, each.kind) == kind and each.name in {"", name} and each.namespace in {"", namespace}
        for each in policy.spec.resource_selectors
    )


def _labels_may_match(selector: ResourceSelector, template: Document) -> bool:
    labels = template.raw["metadata"].get("labels") or {}
    is_plain = isinstance(labels, dict) and all(isinstance(each, str) for each in labels.values())
    return selector.label_selector is None or not is_plain or selector.label_selector.matches(labels)


class BindingOptions(NamedTuple):
    """How bindings become workloads; whether templates are watched, too; and which Lease the controllers have.

    Attributes:
        owner: the annotation of a template that names who owns it; empty for none.
    """

    templates: bool = False
    replica_paths: Sequence[ReplicaPath] = ()
    workload_affinity: bool = False
    lease: Key = DEFAULT_LEASE
    owner: str = OWNER


PLAIN_BINDINGS: Final = BindingOptions()
BindingKey = tuple[str, str]
"""The namespace, empty for a cluster-scoped binding, and the name."""


class WatchedWorkload(NamedTuple):
    """A workload of a binding.

    Attributes:
        workload: the workload. Its binding is the one that Karmada writes next.
        related: the workloads that it follows or that follow it; None if these are not known.
        stored: the binding as the control plane stores it; None if the source does not keep it.
    """

    workload: SimulatedWorkload
    related: Sequence[SimulatedWorkload] | None
    stored: Binding | None = None


class _Built(NamedTuple):
    """A workload with the objects that it was built from. ``workload`` is None if nothing concerns the template."""

    template: Document | None
    binding: Binding | None
    workload: SimulatedWorkload | None
    gap: Gap | None = None

    @property
    def is_free(self) -> bool:
        """Whether there is a valid template that no policy selects and that has no binding."""
        return self.template is not None and self.workload is None and self.gap is None


class _KnownWorkloads(NamedTuple):
    """The workloads of one version of bindings and templates, with one set of policies, and the free templates."""

    version: tuple[object, object]
    policies: Sequence[Policy]
    workloads: list[SimulatedWorkload]
    free: list[WorkloadKey]


class KindCounts:
    """The kinds that bindings name and policies select, with the number of objects that do."""

    def __init__(self) -> None:
        self._counts: Counter[KindName] = Counter()
        self._lock = threading.Lock()

    def update(self, _key: Key, before: Binding | Policy | None, after: Binding | Policy | None) -> None:
        with self._lock:
            self._counts.update(_kinds_of(after))
            self._counts.subtract(_kinds_of(before))
            for kind in _kinds_of(before):
                if not self._counts[kind]:
                    del self._counts[kind]

    def kinds(self) -> frozenset[KindName]:
        with self._lock:
            return frozenset(self._counts)


def _kinds_of(named_by: Binding | Policy | None) -> Iterable[KindName]:
    """Return the kinds that an object names, without those that Karmada never propagates, and those it waits for."""
    if named_by is None:
        return ()
    if isinstance(named_by, Binding):
        return _propagated_kinds((named_by.spec.resource,))
    return _selected_kinds((named_by,)) | _waiting_kinds((named_by,))


def _selected_kinds(policies: Iterable[Policy]) -> set[KindName]:
    return _propagated_kinds(selector for policy in policies for selector in policy.spec.resource_selectors)


def _propagated_kinds(resources: Iterable[ObjectReference | ResourceSelector]) -> set[KindName]:
    kinds = {KindName(each.api_version, each.kind) for each in resources}
    return {kind for kind in kinds if reason_not_propagated(*kind) is None}


def _waiting_kinds(policies: Iterable[Policy]) -> set[KindName]:
    return {KindName(*Prerequisite.of(name)[:2]) for name in prerequisites(policies)}


class ObservedWorkloads:
    """Builds the workloads of a watched control plane. Safe for several threads."""

    def __init__(
        self,
        bindings: Sequence[Informer[Binding]],
        templates: TemplateWatches | None,
        options: BindingOptions = PLAIN_BINDINGS,
    ) -> None:
        self.workload_affinity = options.workload_affinity
        self._bindings = bindings
        self._templates = templates
        self._paths = options.replica_paths
        self._pairing = self._paired_with(())
        self._building = threading.Lock()
        self._changed = object()
        self._known: _KnownWorkloads | None = None
        self._overrides: tuple[object, tuple[OverridePolicy, ...]] | None = None
        self.placed = ObservedIndex(self._binding, lambda: (pair for each in bindings for pair in each.items()))
        for each in bindings:
            each.subscribe(self._binding_changed)
            each.subscribe(self.placed.changed)

    def __len__(self) -> int:
        return sum(map(len, self._bindings))

    def gaps(self) -> list[Gap]:
        """Return the kinds of templates that are not known."""
        return [Gap(GapKind.NO_TEMPLATES)] if self._templates is None else self._templates.gaps()

    def invalid(self) -> list[Gap]:
        """Return the templates that are left out because they are invalid."""
        if self._templates is None:
            return []
        return [each.gap for each in list(self._pairing.built.values()) if each.gap is not None]

    def bindings(self) -> Iterator[Binding]:
        """Yield the bindings as the control plane stores them, without what no decision reads."""
        for informer in self._bindings:
            yield from (binding for _, binding in informer.items())

    def template_of(self, binding: Binding) -> Mapping[str, Any] | None:
        """Return the resource template of a binding; None if it is not known."""
        if self._templates is None:
            return None
        resource = binding.spec.resource
        kind = KindName(resource.api_version, resource.kind)
        found = self._templates.get(kind, (resource.namespace, resource.name))
        return None if found is None else found.raw

    def workload(self, key: BindingKey, policies: Sequence[Policy]) -> WatchedWorkload | None:
        binding = self._binding(key)
        if binding is None:
            return None
        pairing = self._pairing_for(policies)
        workload = self._of_binding(pairing, binding)
        leaders = (self._binding((each.namespace, each.name)) for each in binding.spec.required_by)
        related = [self._of_binding(pairing, each) for each in leaders if each is not None]
        related += islice(self._dependencies(pairing, workload), _MAX_RELATED)
        return WatchedWorkload(workload, related, binding)

    def workloads(
        self, policies: Sequence[Policy], check: Callable[[], None], claimants: Sequence[Policy] = ()
    ) -> list[SimulatedWorkload]:
        """Return all workloads: those of templates in a fixed order, and then those of bindings without a template.

        Resources that no policy selects and that have no binding are left out, unless a claimant selects them.

        Args:
            policies: the policies, with their defaults. The same sequence means the same policies.
            check: called before a workload is built; an exception that it raises ends the call. What was built until
                then is kept for the next call.
            claimants: policies, with their defaults, that are not among the others and may claim resources.
        """
        with self._building:
            version = self._version()  # a change after this line is one of the next version
            pairing = self._pairing_for(policies)
            if self._known is None or self._known.version != version or self._known.policies is not policies:
                found = self._built(pairing, check)
                free = [identity for identity, each in pairing.built.items() if each.is_free]
                self._known = _KnownWorkloads(version, policies, found, free)
            found = self._known.workloads
            more = list(_unclaimed(pairing, self._known.free, claimants, check)) if claimants else []
            return found + more if more else found  # the same list if nothing has changed: indexes compare it

    def _built(self, pairing: "_Pairing", check: Callable[[], None]) -> list[SimulatedWorkload]:
        """Return all workloads. Only what changed is built again."""
        bindings = {key_of(each.spec.resource): each for each in self.bindings()}
        current: dict[WorkloadKey, _Built] = {}
        for identity, template in self._identities(bindings):
            if identity in current:
                continue  # the same object in another version of its API group, or its binding
            known, binding = pairing.built.get(identity), bindings.get(identity)
            if known is None or known.template is not template or known.binding is not binding:
                check()
                known = pairing.built[identity] = pairing.build(template, binding)
            current[identity] = known
        pairing.built = current
        return [each.workload for each in current.values() if each.workload is not None]

    def _version(self) -> tuple[object, object]:
        return self._changed, self._templates.version if self._templates is not None else None

    def _binding_changed(self, _key: Key, _before: Binding | None, _after: Binding | None) -> None:
        self._changed = object()  # unlike a counter, it is never again what it was, whatever threads do

    def left_out(self, policies: Sequence[Policy]) -> list[Gap]:
        """Return the templates that policies may select and that are left out, invalid ones and unread ones."""
        gaps = [
            each.gap
            for each in list(self._pairing.built.values())
            if each.gap is not None and each.template is not None and may_select(policies, each.template)
        ]
        for kind, key, gap in self._templates.unread() if self._templates is not None else ():
            if any(_may_select_unread(each, kind, key) for each in policies):
                gaps.append(gap)
        return gaps

    def unknown(self, policies: Sequence[Policy], timeout_s: float) -> Gap | None:
        """Return why selected resources are not known, after a wait for kinds not watched yet; None if they are."""
        if self._templates is None:
            return Gap(GapKind.NO_TEMPLATES)
        needed = sorted(_selected_kinds(policies))
        self._templates.watch([*needed, *_waiting_kinds(policies)], timeout_s)
        return self._templates.unknown(needed)

    def taint_policies(self) -> tuple[ClusterTaintPolicy, ...]:
        """Return the policies that taint clusters. Invalid ones are left out."""
        found = []
        for document in self._templates.items(TAINT_POLICIES) if self._templates is not None else ():
            with suppress(FieldError):
                found.append(convert(ClusterTaintPolicy, document.raw))
        return tuple(found)

    def overrides(self) -> tuple[OverridePolicy, ...]:
        """Return the overrides that set replicas: the same object until a template changes."""
        if self._templates is None:
            return ()
        version, known = self._templates.version, self._overrides
        if known is None or known[0] is not version:
            documents = (each for kind in OVERRIDES for each in self._templates.items(kind))
            known = self._overrides = version, replica_overrides(each.raw for each in documents)
        return known[1]

    def existing(self, policies: Iterable[Policy]) -> Existence:
        return self._existing(dict.fromkeys(prerequisites(policies)))

    def _existing(self, names: Iterable[str]) -> Existence:
        if self._templates is None:
            return NOTHING_KNOWN
        wanted = {name: Prerequisite.of(name) for name in names}
        found = {name: self._templates.has(KindName(*each[:2]), each.key) for name, each in wanted.items()}
        return Existence({name: exists for name, exists in found.items() if exists is not None})

    def _identities(self, bindings: Iterable[WorkloadKey]) -> Iterator[tuple[WorkloadKey, Document | None]]:
        """Yield the identity of each resource, and its template if it is known."""
        if self._templates is not None:
            for kind in self._templates.kinds():
                for template in self._templates.items(kind):
                    yield key_of(template), template
        for identity in bindings:
            yield identity, None

    def _dependencies(self, pairing: "_Pairing", workload: SimulatedWorkload) -> Iterator[SimulatedWorkload]:
        """Yield the workloads that follow a workload, or may follow it by their labels."""
        for dependency in workload.dependencies or ():
            key = dependency.namespace, binding_name(dependency.kind, dependency.name)
            binding = self._binding(key) if dependency.name else None
            if binding is not None:
                yield self._of_binding(pairing, binding)
            else:
                yield from self._meant_by(pairing, dependency)

    def unclaimed(self, policies: Sequence[Policy], dependency: Dependency) -> Sequence[SimulatedWorkload]:
        """Return the resources that a dependency means, also those that no policy selects and that have no binding."""
        known = self._pairing
        return list(self._meant_by(known if known.policies is policies else self._pairing_for(policies), dependency))

    def _meant_by(self, pairing: "_Pairing", dependency: Dependency) -> Iterator[SimulatedWorkload]:
        for template in self._templates_of(dependency):
            with suppress(ManifestError):
                yield pairing.builder.of_pair(template, self._binding_of(template))

    def _templates_of(self, dependency: Dependency) -> Iterable[Document]:
        if self._templates is None:
            return ()
        kind = KindName(dependency.api_version, dependency.kind)
        if not dependency.name:
            return (each for each in self._templates.items(kind) if each.namespace == dependency.namespace)
        found = self._templates.get(kind, (dependency.namespace, dependency.name))
        return (found,) if found is not None else ()

    def _of_binding(self, pairing: "_Pairing", binding: Binding) -> SimulatedWorkload:
        resource, template = binding.spec.resource, None
        if self._templates is not None:
            kind = KindName(resource.api_version, resource.kind)
            template = self._templates.get(kind, (resource.namespace, resource.name))
        return pairing.build(template, binding).workload or pairing.builder.of_binding(binding)

    def _pairing_for(self, policies: Sequence[Policy]) -> "_Pairing":
        """Return what was built with these policies. Of what was built with others, the rest stays that they share."""
        before = self._pairing
        same = before.policies is policies
        names = before.prerequisites if same else tuple(dict.fromkeys(prerequisites(policies)))
        existing = self._existing(names)
        others = [name for name in names if existing.has(name) is not before.existing.has(name)]
        if same and not others:
            return before
        pairing = self._paired_with(policies, names, existing)
        changed = changed_policies(before.policies, policies).with_waiting(policies, others)
        pairing.built = before.unaffected_by(changed)
        self._pairing = pairing
        return pairing

    def _paired_with(
        self, policies: Sequence[Policy], names: Sequence[str] = (), existing: Existence = NOTHING_KNOWN
    ) -> "_Pairing":
        catalog = PolicyCatalog(policies)
        builder = WorkloadBuilder(
            Manifests(),
            self._paths,
            workload_affinity=self.workload_affinity,
            catalog=catalog,
            live=True,
            existing=existing,
        )
        return _Pairing(policies, catalog, builder, (names, existing))

    def _binding(self, key: BindingKey) -> Binding | None:
        return next((found for each in self._bindings if (found := each.get(key)) is not None), None)

    def _binding_of(self, template: Document) -> Binding | None:
        binding = self._binding((template.namespace, binding_name(template.kind, template.name)))
        return binding if binding is not None and key_of(binding.spec.resource) == key_of(template) else None


class _Pairing:
    def __init__(
        self,
        policies: Sequence[Policy],
        catalog: PolicyCatalog,
        builder: WorkloadBuilder,
        prerequisites: tuple[Sequence[str], Existence] = ((), NOTHING_KNOWN),
    ) -> None:
        self.policies = policies
        self.prerequisites, self.existing = prerequisites
        self.builder = builder
        self.built: dict[WorkloadKey, _Built] = {}
        self._catalog = catalog

    def unaffected_by(self, changed: PolicyChanges) -> dict[WorkloadKey, _Built]:
        if changed.all:
            return {}
        return {identity: built for identity, built in self.built.items() if not _is_affected(built, changed)}

    def build(self, template: Document | None, binding: Binding | None) -> _Built:
        if template is not None and binding is None and not may_be_held(template.raw, self._catalog.matching):
            return _Built(template, None, None)
        gap = None
        if template is not None:
            try:
                return _Built(template, binding, self.builder.of_pair(template, binding))
            except ManifestError as error:
                gap = _left_out(template, error)
        return _Built(template, binding, self.builder.of_binding(binding) if binding is not None else None, gap)


def _left_out(template: Document, error: ManifestError) -> Gap:
    return Gap(GapKind.INVALID_OBJECT, (template.resource,), {"error": str(error)})


def _unclaimed(
    pairing: _Pairing, free: Iterable[WorkloadKey], claimants: Sequence[Policy], check: Callable[[], None]
) -> Iterator[SimulatedWorkload]:
    """Yield the workloads of free templates that a claimant selects. Invalid ones become gaps."""
    catalog = PolicyCatalog(claimants)
    for identity in free:
        built = pairing.built[identity]
        template = built.template
        if template is None or not built.is_free or not may_select(claimants, template):
            continue
        if reason_not_propagated(template.api_version, template.kind, template.namespace) is not None:
            continue
        if catalog.matching(template_of(template.raw)):
            check()
            try:
                yield pairing.builder.of_pair(template, None)
            except ManifestError as error:
                pairing.built[identity] = built._replace(gap=_left_out(template, error))


def _is_affected(built: _Built, changed: PolicyChanges) -> bool:
    workload = built.workload
    if workload is not None and (
        workload.held_by in changed.references
        or any(each.policy.reference in changed.references for each in workload.claims)
    ):
        return True
    if built.template is not None:
        return may_select(changed.current, built.template)
    return False
