"""The workloads of a control plane as they are now, and as Karmada's detector leaves them after an edit of a policy.

Now:

- The policy that the labels and annotations record holds the resource (``model.holding``).
- A binding wins over its template. Only a template that a file changes counts more: it would be applied.
- The detector keeps a binding in line with its policy. Under a Lazy policy the binding stays until the template
  changes, and so does a binding whose labels record another policy than its template.
- A resource without a binding gets one from its policy, if its replicas are known.

After an edit (karmada ``pkg/detector``):

- A policy finds its workloads by the labels of their bindings. It keeps those that it still selects, and its new
  content reaches their bindings. These labels can record another policy than the template: the binding of a template
  that a Lazy policy took over stays until the template changes.
- A workload that its policy no longer selects, or whose policy is deleted, loses its claim. The first of the other
  matching policies claims it at once, even a Lazy one. Without such a policy its binding stays unchanged.
- A policy claims the matching workloads that no policy holds. It takes held workloads only by preemption.
- A policy whose priority drops makes other policies preempt: those that ranked below or equal, and rank above now.
- The content of a Lazy policy reaches a binding when the template changes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from berthmaster.manifests import Document, Manifests
from berthmaster.model import claims, interpretation
from berthmaster.model.binding import Binding, BindingSpec, Component, ObjectReference, binding_name, binding_of, holder
from berthmaster.model.claims import Claim, MatchLevel, permanent_id
from berthmaster.model.components import components_of
from berthmaster.model.decode import convert
from berthmaster.model.dependencies import Dependency, ScriptedDependencies, dependencies_of, recorded_dependencies
from berthmaster.model.errors import FieldError
from berthmaster.model.holding import Holding, PolicyCatalog, is_new, why_not, why_not_taken
from berthmaster.model.interpretation import UnknownReplicas
from berthmaster.model.meta import ObjectMeta, with_metadata, with_spec
from berthmaster.model.policy import Policy, PolicyReference, ResourceSelector
from berthmaster.model.policy_preemption import Resource, may_take_over, named_resources, names_resource
from berthmaster.model.prerequisites import NOTHING_KNOWN, Existence
from berthmaster.model.priority_drops import PriorityDrop, newly_eligible
from berthmaster.model.replicas import ReplicaPath, Replicas, Template, template_of
from berthmaster.model.shared_parts import SharedParts
from berthmaster.simulation.not_scheduled import LOST, UNCLAIMED, waits
from berthmaster.simulation.workload import NotScheduled, SimulatedWorkload, Unscheduled

_CLAIMED: Final = frozenset({NotScheduled.DEFERRED, NotScheduled.MISSING_OVERRIDES, NotScheduled.NO_PRIORITY})
"""Why a resource has no binding although a policy would hold it."""
_CLUSTER_KIND: Final = "ClusterPropagationPolicy"


class _Given(NamedTuple):
    """What the manifests say about one resource."""

    raw: Mapping[str, Any]
    template: Template
    binding: Binding | None
    applied: bool
    holding: Holding


class WorkloadBuilder:
    """Builds the workloads of a set of manifests, one template after the other."""

    def __init__(
        self,
        manifests: Manifests,
        replica_paths: Sequence[ReplicaPath] = (),
        interpreter: interpretation.Interpreter | None = None,
        *,
        workload_affinity: bool = False,
        catalog: PolicyCatalog | None = None,
        live: bool | None = None,
        existing: Existence | None = None,
        preempts: bool = False,
    ) -> None:
        """Prepare the builder.

        Args:
            catalog: the policies, if they are indexed already; None to index the stored ones of the manifests.
            live: whether the bindings of a control plane are known; None if the manifests say so.
            existing: whether the objects exist that policies wait for; None if the manifests say so.
        """
        self._bindings = {_identity(binding.spec.resource): binding for binding in manifests.bindings}
        self._existing = manifests.existing if existing is None else existing
        self._live = manifests.knows_bindings if live is None else live
        self._read = bool(live) or manifests.read_at is not None
        self._catalog = catalog or PolicyCatalog(manifests.stored_policies, preempts=preempts)
        self._paths = replica_paths
        self._interpreter = interpreter
        self._complete = manifests.interpreters_complete
        self._workload_affinity = workload_affinity
        self._parts = SharedParts()

    def of_template(self, document: Document) -> SimulatedWorkload:
        """Return the workload of a template, with its binding of the manifests.

        Raises:
            ManifestError: a field that affects decisions is invalid.
        """
        key = document.namespace, binding_name(document.kind, document.name)
        workload = self.of_pair(document, self._bindings.get(key))
        self._bindings.pop(key, None)
        return workload

    def of_pair(self, document: Document, binding: Binding | None) -> SimulatedWorkload:
        """Return the workload of a template and its binding; None if it has no binding."""
        try:
            return self._of_template(document, binding)
        except FieldError as error:
            raise document.error(error) from None

    def of_remaining_bindings(self) -> list[SimulatedWorkload]:
        """Return the workloads of the bindings whose templates are not among the manifests."""
        return [self.of_binding(binding) for binding in self._bindings.values()]

    def _of_template(self, document: Document, binding: Binding | None) -> SimulatedWorkload:
        raw, template, metadata = document.raw, template_of(document.raw), metadata_of(document.raw)
        resource = ObjectReference(template.api_version, template.kind, template.name, template.namespace)
        # A binding also keeps the record of a policy that is deleted after another one took its template.
        records = [metadata] if binding is None or metadata.uid else [metadata, binding.metadata]
        holding = self._lasting(self._catalog.holding(template, records), binding)
        applied = document.applied or (binding is not None and _written_by_hand(metadata, binding))
        given = _Given(raw, template, binding, applied, holding)
        asked = self._asked(given)
        found, notes = self._replicas(given, asked)
        replicas = found if isinstance(found, Replicas) else Replicas()
        claim = holding.claim
        waiting = waits(claim.policy, template.namespace, self._existing) if claim is not None else None
        scripted = self._interpreter.dependencies(raw) if self._interpreter is not None else None
        unscheduled = self._unscheduled(given, found) or (waiting if binding is None else None)
        components = self._components(given)
        target, deferred = (
            self._binding(given, replicas, components, waiting) if unscheduled is None else (binding, None)
        )
        if unscheduled is not None and unscheduled.reason in _CLAIMED and claim is not None:
            deferred = binding_of(raw, claim.policy, replicas, workload_affinity=self._workload_affinity)
        if waiting is not None and waiting.reason is NotScheduled.MISSING_OVERRIDES and holding.recorded is None:
            holding = Holding(None, holding.claims, note=holding.note)
        return SimulatedWorkload(
            resource,
            holding.claims,
            target,
            raw,
            asked if isinstance(asked, Replicas) else replicas,
            held_by=holding.reference,
            present=binding is not None,
            unscheduled=unscheduled,
            deferred=deferred,
            waits=waiting,
            uncounted=(
                Unscheduled(NotScheduled.UNKNOWN_REPLICAS, found.reason) if isinstance(found, UnknownReplicas) else None
            ),
            stalled_at=_stalled_at(binding) if not applied else None,
            why_not=reasons(holding, template),
            notes=tuple(filter(None, (holding.note, *notes))),
            dependencies=dependencies_for(target, raw, scripted, applied=applied),
            scripted=scripted,
            components_are_old=components is None and applied and _has_old_components(document, target),
        )

    def _lasting(self, holding: Holding, binding: Binding | None) -> Holding:
        """Return a claim that lasts although its policy no longer selects the resource.

        The detector removes claims only when the policy changes, and only from resources whose bindings record it. It
        does not look at them when the labels of a resource change. The policies of a control plane that was read count
        as processed. Those of other files may have been edited since.
        """
        recorded = holding.recorded
        policy = self._catalog.get(recorded) if recorded is not None and self._live else None
        if policy is None or recorded == holding.reference or policy.metadata.deletion_timestamp is not None:
            return holding
        if is_new(policy) or any(each.policy.reference == recorded for each in holding.claims):
            return holding
        if not self._read and binding is not None and _records(binding, policy):
            return holding
        note = f"{recorded} no longer selects it, and holds it until the policy changes"
        return Holding(recorded, holding.claims, recorded, note)

    def of_binding(self, binding: Binding) -> SimulatedWorkload:
        return SimulatedWorkload(
            binding.spec.resource,
            (),
            binding,
            held_by=holder(binding.metadata),
            present=True,
            stalled_at=_stalled_at(binding),
            dependencies=dependencies_for(binding, None),
        )

    def _replicas(
        self, given: _Given, asked: Replicas | UnknownReplicas
    ) -> tuple[Replicas | UnknownReplicas, list[str]]:
        """Return the replicas that count for a resource, and notes if its template and its binding differ."""
        binding = given.binding
        if binding is None:
            return asked, []
        held = Replicas(binding.spec.replicas, binding.spec.replica_requirements)
        if binding.spec.components:  # Karmada then asks for components, and not for replicas
            return held, []
        if isinstance(asked, UnknownReplicas):
            return held, [f"{asked.reason}; the binding's count"] if given.applied else []
        if given.applied:
            return asked, []
        if asked.number != held.number and binding.spec.placement is not None:
            return held, [f"the template has {asked.number} replicas; the binding has {held.number}, and counts"]
        return held, []

    def _asked(self, given: _Given) -> Replicas | UnknownReplicas:
        try:
            asked = interpretation.interpreted(given.raw, self._paths, self._interpreter, complete=self._complete)
        except FieldError:
            stored = (given.raw.get("metadata") or {}).get("uid")
            if not stored or "spec" in given.raw:
                raise
            return UnknownReplicas("only the metadata of the template was read")
        if isinstance(asked, UnknownReplicas):
            return asked
        return asked._replace(requirements=self._parts.part("requirements", asked.requirements))

    def _unscheduled(self, given: _Given, found: Replicas | UnknownReplicas) -> Unscheduled | None:
        """Return why a resource has no binding that a scheduler looks at, as far as the binding does not say so."""
        claim, holding = given.holding.claim, given.holding
        if given.binding is not None:
            lost = holding.reference is None and holding.recorded is not None and not given.binding.spec.required_by
            return LOST if lost else None
        if claim is None:
            if holding.note:
                return Unscheduled(NotScheduled.UNCLAIMED, f"no policy places it: {holding.note}")
            return UNCLAIMED
        if isinstance(found, UnknownReplicas):
            return Unscheduled(NotScheduled.UNKNOWN_REPLICAS, found.reason)
        if self._live and not given.applied and _waits_for_template(given, claim.policy):
            return deferred_by(claim.policy)
        return None

    def _components(self, given: _Given) -> tuple[Component, ...] | None:
        """Return the pod templates of a template that is applied; None if those of the binding count.

        A binding with components shows that Karmada's gate for them is on. Equal ones keep their order.
        """
        if given.binding is None or not given.binding.spec.components or not given.applied:
            return None
        found, held = components_of(given.raw, self._interpreter), given.binding.spec.components
        return held if found is not None and sorted(found, key=_by_name) == sorted(held, key=_by_name) else found

    def _binding(
        self,
        given: _Given,
        replicas: Replicas,
        components: tuple[Component, ...] | None,
        waiting: Unscheduled | None,
    ) -> tuple[Binding | None, Binding | None]:
        """Return the binding that counts now, and the one that the next change of the template brings."""
        claim, binding = given.holding.claim, given.binding
        if claim is None:
            return binding, None
        desired = binding_of(
            given.raw, claim.policy, replicas, current=binding, workload_affinity=self._workload_affinity
        )
        if binding is None:
            return desired, None
        if components is not None:
            desired = with_spec(desired, components=components)
        if binding.spec.scheduler_name and given.holding.recorded == claim.policy.reference:
            desired = with_spec(desired, scheduler_name=binding.spec.scheduler_name)
        if waiting is not None:
            return binding, desired if _differ(binding, desired) else None
        if (claim.policy.lazy or _records_another(given, claim)) and not given.applied:
            same = _records(binding, claim.policy) and not _differ(binding, desired)
            return binding, None if same else bound_by(desired, claim.policy)
        desired = bound_by(desired, claim.policy)
        return (binding if desired == binding else desired), None  # most are equal, and one of them takes less memory


def _by_name(component: Component) -> str:
    return component.name


def _has_old_components(document: Document, binding: Binding | None) -> bool:
    """Return whether a template is applied to a workload of several pod templates, which are read from its binding."""
    if binding is None or not binding.spec.components:
        return False
    return document.replaced is None or document.replaced.get("spec") != document.raw.get("spec")


def _stalled_at(binding: Binding | None) -> BindingSpec | None:
    return binding.spec if binding is not None and binding.gave_up else None


def _waits_for_template(given: _Given, policy: Policy) -> bool:
    """Whether a policy places a resource without a binding only when its template changes.

    The detector finds the resources of a policy by the labels of bindings. A resource that a policy claimed while it
    was Lazy has none, even if the policy is not Lazy any more. A new Lazy policy claims a stored resource like that.
    """
    if given.holding.recorded is not None:
        return given.holding.recorded == policy.reference
    return policy.lazy and is_new(policy) and bool((given.raw.get("metadata") or {}).get("uid"))


def deferred_by(policy: Policy) -> Unscheduled:
    """Return that a policy claims a resource, and places it when its template changes."""
    why = "is Lazy" if policy.lazy else "claims it, but it has no binding, as after a claim while the policy was Lazy"
    return Unscheduled(NotScheduled.DEFERRED, f"{policy} {why}: it places the resource when its template changes")


def dependencies_for(
    binding: Binding | None,
    raw: Mapping[str, Any] | None,
    scripted: ScriptedDependencies | None = None,
    *,
    applied: bool = False,
) -> tuple[Dependency, ...] | None:
    """Return the dependencies that follow a workload; None if they are not known.

    Args:
        binding: the binding. Without ``propagateDeps`` nothing follows, and neither without a namespace.
        scripted: what a script of the control plane says; Karmada asks nothing else then.
        applied: whether the template is newer than the record on the binding.
    """
    if binding is None or not binding.spec.propagate_deps or not binding.spec.resource.namespace:
        return ()
    recorded = recorded_dependencies(binding.metadata.annotations)
    if recorded is not None and not applied:
        return recorded
    if scripted is not None:
        return scripted.found
    found = dependencies_of(raw) if raw is not None else None
    return found if found is not None else recorded


def _identity(resource: ObjectReference) -> tuple[str, str]:
    """Return the key by which Karmada identifies the binding of a resource: its namespace and name."""
    return resource.namespace, binding_name(resource.kind, resource.name)


def metadata_of(raw: Mapping[str, Any]) -> ObjectMeta:
    """Return the metadata of a resource."""
    try:
        return convert(ObjectMeta, raw.get("metadata") or {})
    except FieldError as error:
        raise error.below("metadata") from None


def _written_by_hand(metadata: ObjectMeta, binding: Binding) -> bool:
    """Whether a template comes from a file although its binding is stored: it would be applied."""
    stored = bool(binding.metadata.uid or binding.metadata.resource_version)
    return stored and not (metadata.uid or metadata.resource_version)


def _records_another(given: _Given, claim: Claim) -> bool:
    """Whether a stored binding does not record the policy that its template records.

    The detector finds the bindings of a policy by their labels. A policy that took the template over while it was Lazy
    therefore does not reach the binding, even if it is not Lazy any more.
    """
    binding = given.binding
    if binding is None or given.holding.recorded != claim.policy.reference:
        return False
    return not _records(binding, claim.policy)


def _records(binding: Binding, policy: Policy) -> bool:
    """Whether the labels of a binding record a policy, or cannot: one of them has no UID or no permanent ID."""
    if not binding.metadata.uid or not permanent_id(policy):
        return True
    return binding.metadata.labels.get(claims.PERMANENT_ID[policy.kind]) == permanent_id(policy)


def _differ(binding: Binding, desired: Binding) -> bool:
    """Whether the next change of the template changes what a scheduler reads."""
    fields = ("placement", "replicas", "replica_requirements", "scheduler_name", "propagate_deps")
    return any(getattr(binding.spec, each) != getattr(desired.spec, each) for each in fields)


def reasons(holding: Holding, template: Template) -> tuple[str, ...]:
    """Return why each policy that matches a resource does not hold it; empty for the holder."""
    held = holding.claim
    return tuple("" if each is held else why_not(each, holding, template) for each in holding.claims)


def recorded(workload: SimulatedWorkload) -> PolicyReference | None:
    """Return the policy that a template records, or else the one that holds the workload; None without one."""
    found = _record(metadata_of(workload.manifest)) if workload.template is not None else None
    return found if found is not None else workload.held_by


def _record(metadata: ObjectMeta) -> PolicyReference | None:
    found = holder(metadata)
    return found if found is not None and metadata.labels.get(claims.PERMANENT_ID[found.kind]) else None


def recorded_by_binding(workload: SimulatedWorkload, reference: PolicyReference, policy_id: str) -> bool:
    """Return whether the binding of a workload records a policy.

    Args:
        workload: the workload. A binding that no API server has stored records the policy that holds the workload.
        policy_id: its permanent ID; empty if it has none yet.
    """
    binding = workload.binding
    if binding is None or not workload.present:
        return workload.held_by == reference and not _is_recorded(workload)
    if not _is_stored(binding):
        return workload.held_by == reference
    if reference.kind != _CLUSTER_KIND and binding.metadata.namespace != reference.namespace:
        return False
    return binding.metadata.labels.get(claims.PERMANENT_ID[reference.kind]) == (policy_id or _placeholder(reference))


def with_record(workload: SimulatedWorkload, policy: Policy, **changed: Any) -> SimulatedWorkload:  # noqa: ANN401
    """Return a workload whose template records a policy, and whose other fields are changed."""
    reference, template, stalled_at = policy.reference, workload.template, workload.stalled_at
    if workload.held_by != reference:
        stalled_at = None  # its binding gets other labels and another version of the template
    stored = template is not None and bool((template.get("metadata") or {}).get("uid"))
    if template is None or not (stored or _is_recorded(workload)):
        return replace(workload, held_by=reference, stalled_at=stalled_at, **changed)
    dropped = claims.record_keys(_CLUSTER_KIND) if not policy.cluster_scoped else ((), ())
    metadata = metadata_of(template)
    labels = {key: value for key, value in metadata.labels.items() if key not in dropped[0]}
    annotations = {key: value for key, value in metadata.annotations.items() if key not in dropped[1]}
    label, names = claims.record_keys(policy.kind)
    labels[label[0]] = permanent_id(policy) or _placeholder(reference)
    annotations |= dict(zip(names, (policy.metadata.name, policy.metadata.namespace), strict=False))
    template = _with_metadata(template, labels, annotations)
    return replace(workload, held_by=reference, stalled_at=stalled_at, template=template, **changed)


def without_record(
    workload: SimulatedWorkload, reference: PolicyReference, only_id: str | None = None
) -> SimulatedWorkload:
    """Return a workload whose template and binding do not record a policy of this kind.

    ``only_id``: the binding keeps its record unless that has this permanent ID; None to remove any.
    """
    labels, annotations = claims.record_keys(reference.kind)
    template, binding = workload.template, workload.binding
    if template is not None:
        metadata = metadata_of(template)
        template = _with_metadata(
            template,
            {key: value for key, value in metadata.labels.items() if key not in labels},
            {key: value for key, value in metadata.annotations.items() if key not in annotations},
        )
    if binding is not None and (only_id is None or binding.metadata.labels.get(labels[0], only_id) == only_id):
        binding = _unbound(binding, reference)
    return replace(workload, held_by=None, claims=(), why_not=(), template=template, binding=binding)


def _unbound(binding: Binding, reference: PolicyReference) -> Binding:
    labels, _ = claims.record_keys(reference.kind)
    kept = {key: value for key, value in binding.metadata.labels.items() if key not in labels}
    return with_metadata(binding, labels=kept)


def bound_by(binding: Binding, policy: Policy) -> Binding:
    """Return a binding whose labels record a policy. A PropagationPolicy removes the record of a cluster-wide one."""
    if not _is_stored(binding):
        return binding
    dropped = claims.PERMANENT_ID[_CLUSTER_KIND] if not policy.cluster_scoped else ""
    labels = {key: value for key, value in binding.metadata.labels.items() if key != dropped}
    labels[claims.PERMANENT_ID[policy.kind]] = permanent_id(policy) or _placeholder(policy.reference)
    if labels == binding.metadata.labels:
        return binding
    return with_metadata(binding, labels=labels)


def _placeholder(reference: PolicyReference) -> str:
    return f"new:{reference}"


def _is_stored(binding: Binding) -> bool:
    return bool(binding.metadata.uid) or any(binding.metadata.labels.get(each) for each in claims.PERMANENT_ID.values())


def _is_recorded(workload: SimulatedWorkload) -> bool:
    return workload.template is not None and holder(metadata_of(workload.manifest)) is not None


def _with_metadata(
    template: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, Any]:
    metadata = {**(template.get("metadata") or {}), "labels": dict(labels), "annotations": dict(annotations)}
    return {**template, "metadata": metadata}


@dataclass(frozen=True, slots=True)
class PolicyEdit:
    """One policy before and after a change, with its defaults (``policy.defaulted``).

    Attributes:
        before: the stored policy; None if it is created.
        after: the policy as it would be stored; None if it is deleted.
    """

    before: Policy | None
    after: Policy | None

    @property
    def reference(self) -> PolicyReference:
        """The identity of the policy. Raises ``ValueError`` if there is neither a policy before nor after."""
        policy = self.after or self.before
        if policy is None:
            raise ValueError("an edit has a policy before or after it")
        return policy.reference

    @property
    def has_effect(self) -> bool:
        """Whether the spec changes. The detector ignores a change of metadata."""
        return self.before is None or self.after is None or self.before.spec != self.after.spec

    @property
    def claimant(self) -> dict[PolicyReference, Policy]:
        """The policy after the edit, which may claim workloads because of it."""
        return {self.after.reference: self.after} if self.has_effect and self.after is not None else {}

    def applied(self, policies: Iterable[Policy]) -> tuple[Policy, ...]:
        others = tuple(each for each in policies if each.reference != self.reference)
        return (*others, self.after) if self.after is not None else others


class Detector:
    """Applies one edit of a policy to workloads."""

    def __init__(
        self,
        edit: PolicyEdit,
        catalog: PolicyCatalog,
        *,
        workload_affinity: bool = False,
        existing: Existence = NOTHING_KNOWN,
        preempts: bool,
        lazy_counts: bool = False,
    ) -> None:
        self.preemptors = tuple(preemptors(edit, catalog)) if edit.has_effect and preempts else ()
        self._edit = edit
        self._catalog = catalog
        self._workload_affinity = workload_affinity
        self._existing = existing
        self._lazy_counts = lazy_counts

    def named(self) -> Iterator[Resource]:
        """Yield the resources that the edit may take from the policies that hold them."""
        for policy in self.preemptors:
            yield from named_resources(policy)

    def detected(self, workload: SimulatedWorkload) -> SimulatedWorkload:
        """Return a workload after the edit: the same object if the edit does not concern it.

        A workload without a template has unknown labels. It keeps its policy unless the identity alone decides.
        """
        if not self._edit.has_effect:
            return workload
        if workload.template is not None and claims.claimed_externally(metadata_of(workload.manifest)):
            return workload
        template = template_of(workload.manifest)
        after = self._edit.after
        if after is None:
            changed = self._deleted(workload, template)
        elif self.is_pending(workload):
            changed = self._claimed(workload, template, after)
        elif self._lazy_counts and recorded(workload) == self._edit.reference and _level(after, workload, template):
            changed = self._reconciled(workload, template)
        elif recorded_by_binding(workload, self._edit.reference, self._id()):
            changed = self._found_by_binding(workload, template, after)
        elif recorded(workload) is None and _level(after, workload, template):
            changed = self._reconciled(workload, template, lazily=after.lazy)
        else:
            changed = workload
        return self._preempted(changed, template)

    def is_pending(self, workload: SimulatedWorkload) -> bool:
        """Return whether Karmada has yet to claim a stored workload.

        If what may happen later counts, the record of a policy that is deleted, or selects the workload no more, counts
        as if it ended. It may also last: Karmada does not find all templates that it claimed.
        """
        if workload.template is None:
            return False
        metadata = metadata_of(workload.manifest)
        found = _record(metadata)
        if not metadata.uid or claims.claimed_externally(metadata):
            return False
        if found is None or found != workload.held_by:
            return found != workload.held_by
        if not self._lazy_counts:
            return False
        policy = self._edit.before if found == self._edit.reference else self._catalog.get(found)
        if policy is None:
            return True
        known = permanent_id(policy)
        if known and known != metadata.labels[claims.PERMANENT_ID[found.kind]]:
            return True
        return not _level(policy, workload, template_of(workload.manifest))

    def retried(self, workload: SimulatedWorkload) -> SimulatedWorkload:
        """Return a workload whose policy waited, after what the policy waits for was created."""
        return self._reconciled(workload, template_of(workload.manifest), lazily=True)

    def blocked(self, workload: SimulatedWorkload) -> str:
        """Return why another policy keeps a workload that the edit makes the policy select; empty if that is not so."""
        policy, before, held_by = self._edit.after, self._edit.before, workload.held_by
        keeper = self._catalog.get(held_by) if held_by is not None else None
        if policy is None or keeper is None or keeper.reference == policy.reference:
            return ""
        template = template_of(workload.manifest)
        if not _level(policy, workload, template) or (before is not None and _level(before, workload, template)):
            return ""
        return f"{keeper} holds it: {why_not_taken(policy, keeper, template)}"

    def _id(self) -> str:
        policies = (self._edit.before, self._edit.after)
        return next((found for each in policies if each is not None and (found := permanent_id(each))), "")

    def _deleted(self, workload: SimulatedWorkload, template: Template) -> SimulatedWorkload:
        """Return a workload after the deletion of the policy: its template and its binding lose the claim.

        The detector looks for templates of the kinds and namespaces that the policy selected last.
        """
        before = self._edit.before
        selectors = before.spec.resource_selectors if before is not None else ()
        if not any(_may_select(each, template) for each in selectors):
            return workload
        if before is not None and recorded(workload) != self._edit.reference and self.is_pending(workload):
            return self._claimed(workload, template, before)
        if recorded(workload) != self._edit.reference:
            return workload
        return self._reconciled(without_record(workload, self._edit.reference, self._id() or None), template)

    def _claimed(self, workload: SimulatedWorkload, template: Template, policy: Policy) -> SimulatedWorkload:
        """Return a workload that Karmada has not claimed yet: it will decide with the policies after the edit.

        A policy with the name of a deleted one holds what still records that name.
        """
        found = recorded(workload)
        if found == self._edit.reference:
            return self._reconciled(workload, template, lazily=policy.lazy)
        if workload.held_by != self._edit.reference and not _level(policy, workload, template):
            return workload
        free = without_record(workload, found) if found is not None else workload
        return self._reconciled(replace(free, held_by=None), template, lazily=policy.lazy)

    def _found_by_binding(self, workload: SimulatedWorkload, template: Template, policy: Policy) -> SimulatedWorkload:
        """Return a workload whose binding records the policy. The template may record another one by now."""
        level = _level(policy, workload, template)
        if level is None:
            return workload
        if level:
            return self._reconciled(workload, template, lazily=policy.lazy)
        holds = recorded(workload)
        if holds is not None and holds.kind != self._edit.reference.kind:
            binding = workload.binding
            return workload if binding is None else replace(workload, binding=_unbound(binding, self._edit.reference))
        return self._reconciled(without_record(workload, self._edit.reference), template)

    def _preempted(self, workload: SimulatedWorkload, template: Template) -> SimulatedWorkload:
        for policy in self.preemptors:
            if self._takes(policy, recorded(workload), template):
                workload = self._applied(workload, Claim(policy, MatchLevel.NAME), lazily=policy.lazy)
        return workload

    def _takes(self, policy: Policy, holds: PolicyReference | None, template: Template) -> bool:
        """Return whether a policy preempts the recorded one: a PropagationPolicy also a deleted cluster-wide one."""
        held_by = self._catalog.get(holds) if holds is not None else None
        if held_by is not None:
            return held_by is not policy and may_take_over(policy, held_by, template)
        if holds is None or holds.kind == policy.kind or policy.cluster_scoped:
            return False
        return names_resource(policy, template)

    def _reconciled(
        self, workload: SimulatedWorkload, template: Template, *, lazily: bool = False
    ) -> SimulatedWorkload:
        """Return a workload after a reconcile of its template.

        ``lazily``: whether a Lazy policy waits: the reconcile follows from the event of one.
        """
        reference = recorded(workload)
        if reference is None:
            first = self._first(workload, template)
            return self._applied(workload, first, lazily=lazily) if first is not None else _unclaimed(workload)
        policy = self._catalog.get(reference)
        if policy is None:  # Karmada missed the template when the policy was deleted, and cleans it up now
            return self._reconciled(without_record(workload, reference), template)
        level = _level(policy, workload, template)
        if level is MatchLevel.NONE:
            return workload
        return self._applied(workload, Claim(policy, level or MatchLevel.LABELS), lazily=lazily)

    def _first(self, workload: SimulatedWorkload, template: Template) -> Claim | None:
        matching = self._catalog.matching(template)
        if workload.template is None:
            matching = tuple(each for each in matching if _level(each.policy, workload, template))
        return matching[0] if matching else None

    def _applied(self, workload: SimulatedWorkload, claim: Claim, *, lazily: bool) -> SimulatedWorkload:
        known = with_record(workload, claim.policy, claims=(claim,), why_not=("",), waits=None)
        if workload.unscheduled is not None and workload.unscheduled.reason is NotScheduled.UNKNOWN_REPLICAS:
            return known
        if workload.uncounted is not None:
            return replace(known, unscheduled=workload.uncounted)
        desired = self._desired(workload, claim)
        waiting = waits(claim.policy, workload.resource.namespace, self._existing)
        if waiting is not None:
            return _waiting(workload, known, desired, waiting)
        if lazily and claim.policy.lazy and not self._lazy_counts:
            if workload.binding is not None:
                return replace(known, deferred=desired)
            return replace(known, unscheduled=deferred_by(claim.policy), deferred=desired)
        followers = dependencies_for(desired, workload.template, workload.scripted)
        same = workload.binding is not None and workload.binding.spec == desired.spec
        stalled_at = known.stalled_at if same else None
        return replace(
            known, binding=desired, deferred=None, unscheduled=None, dependencies=followers, stalled_at=stalled_at
        )

    def _desired(self, workload: SimulatedWorkload, claim: Claim) -> Binding:
        current = workload.binding
        desired = binding_of(
            workload.manifest,
            claim.policy,
            _replicas(workload),
            current=current,
            workload_affinity=self._workload_affinity,
        )
        return bound_by(desired, claim.policy)


def _waiting(
    workload: SimulatedWorkload, claimed: SimulatedWorkload, desired: Binding, why: Unscheduled
) -> SimulatedWorkload:
    """Return a workload whose policy waits: without its overrides the policy does not even claim the workload."""
    unclaimed = why.reason is NotScheduled.MISSING_OVERRIDES and recorded(workload) is None
    base = replace(_unclaimed(workload), claims=claimed.claims, why_not=("",)) if unclaimed else claimed
    if workload.binding is None or not (workload.present or workload.binding.spec.clusters):
        base = replace(base, binding=None)
    return replace(
        base, waits=why, deferred=desired, unscheduled=why if unclaimed or base.binding is None else base.unscheduled
    )


def with_claims(before: SimulatedWorkload, after: SimulatedWorkload, catalog: PolicyCatalog) -> SimulatedWorkload:
    """Return a workload after edits with all policies that match it, and a note if it got another policy."""
    if after.template is None or claims.claimed_externally(metadata_of(after.manifest)):
        return after
    template, now, then = template_of(after.template), after.held_by, before.held_by
    matching = catalog.matching(template)
    held = next((each for each in matching if each.policy.reference == now), None)
    listed = (held, *(each for each in matching if each is not held)) if held is not None else matching
    notes = after.notes
    if then is not None and now is not None and then != now:
        taken = any(each.policy.reference == then for each in matching)
        notes = (f"{now} takes it from {then} by preemption" if taken else f"{then} held it, and releases it", *notes)
    holding = Holding(now, listed, then)
    return replace(after, claims=listed, why_not=reasons(holding, template), notes=notes)


def labels_matter(edit: PolicyEdit, workload: SimulatedWorkload) -> bool:
    """Return whether the unknown labels of a workload without a template can change the effect of an edit."""
    if workload.template is not None or edit.after is None:
        return False
    selectors = edit.after.spec.resource_selectors
    if edit.before is not None and edit.before.spec.resource_selectors == selectors:
        return False
    return _level(edit.after, workload, template_of(workload.manifest)) is None


def preemptors(edit: PolicyEdit, catalog: PolicyCatalog) -> Iterator[Policy]:
    """Yield the policies that preempt because of an edit, if preemption is on, in the order in which they do."""
    before, after = edit.before, edit.after
    if after is None:
        return
    if after.spec.preemption == "Always" and after.metadata.deletion_timestamp is None:
        yield after
    if before is not None and after.explicit_priority < before.explicit_priority:
        drop = PriorityDrop(before.explicit_priority, after.explicit_priority)
        yield from newly_eligible(drop, after, catalog.policies)


def _level(policy: Policy, workload: SimulatedWorkload, template: Template) -> MatchLevel | None:
    """Return how closely a policy selects a workload; None if that depends on labels that are not known."""
    if policy.metadata.deletion_timestamp is not None:
        return MatchLevel.NONE
    if not policy.cluster_scoped and policy.metadata.namespace != template.namespace:
        return MatchLevel.NONE
    selectors = policy.spec.resource_selectors
    found = max((claims.match_level(each, template) for each in selectors), default=MatchLevel.NONE)
    if workload.template is not None or found is MatchLevel.NAME:
        return found
    by_labels = (each for each in selectors if each.label_selector is not None and not each.name)
    return None if any(_may_select(each, template) for each in by_labels) else found


def _may_select(selector: ResourceSelector, template: Template) -> bool:
    kind = selector.api_version, selector.kind
    return kind == (template.api_version, template.kind) and selector.namespace in {"", template.namespace}


def _unclaimed(workload: SimulatedWorkload) -> SimulatedWorkload:
    """Return a workload that no policy claims. A binding from before stays, and no scheduler looks at it."""
    binding = workload.binding
    has_binding = binding is not None and (workload.present or bool(binding.spec.clusters))
    return replace(
        workload,
        claims=(),
        held_by=None,
        why_not=(),
        binding=binding if has_binding else None,
        unscheduled=LOST if has_binding else UNCLAIMED,
        deferred=None,
    )


def _replicas(workload: SimulatedWorkload) -> Replicas:
    """Return the replicas of the binding, which may have been scaled.

    A binding does not follow the template unless it records the policy that holds the template.
    """
    binding, claim = workload.binding, workload.claim
    if binding is None:
        return workload.replicas
    follows = claim is not None and recorded_by_binding(workload, claim.policy.reference, permanent_id(claim.policy))
    if not follows and workload.template is not None:
        return workload.replicas
    return Replicas(binding.spec.replicas, binding.spec.replica_requirements)
