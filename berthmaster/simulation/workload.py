"""A workload of a simulation: a resource with its binding, and the dependencies that follow it.

Dependencies follow the workloads that need them (karmada ``pkg/dependenciesdistributor``). The binding of a workload
with ``propagateDeps`` leads: each dependency gets the clusters of the leader as a snapshot in ``spec.requiredBy`` of
its own binding. A dependency without a policy has an *attached* binding, without a placement.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from berthmaster.model.binding import Binding, BindingSnapshot, BindingSpec, ObjectReference, binding_name
from berthmaster.model.claims import Claim
from berthmaster.model.dependencies import Dependency, ScriptedDependencies
from berthmaster.model.errors import InputError, shown
from berthmaster.model.meta import ObjectMeta, ParsedText, object_name, with_spec
from berthmaster.model.move import as_moved
from berthmaster.model.policy import PolicyReference
from berthmaster.model.readers import Reader
from berthmaster.model.replicas import Replicas, template_of

_NO_REPLICAS: Final = Replicas()


class NotScheduled(Enum):
    """Why no scheduler looks at a workload."""

    UNCLAIMED = "Unclaimed"
    """No policy holds it. A binding from before keeps its clusters."""
    FOLLOWS = "Follows"
    """It is a dependency: its binding has no placement, and it goes where the workloads go that need it."""
    UNKNOWN_REPLICAS = "UnknownReplicas"
    DEFERRED = "Deferred"
    """A Lazy policy claims it. It has no binding until its template changes."""
    OTHER_SCHEDULER = "OtherScheduler"
    """Its binding names a scheduler that the simulation does not know."""
    SUSPENDED = "Suspended"
    UNSUPPORTED = "UnsupportedPlacement"
    """Its placement has a part that this version does not know. Berthmaster's scheduler leaves it where it is."""
    MISSING_OVERRIDES = "MissingOverrides"
    """The policy that selects it waits for its ``dependentOverrides``."""
    NO_PRIORITY = "NoPriority"
    """The priority that its policy names does not exist, so that Karmada cannot build its binding."""
    NOT_RETRIED = "NotRetried"
    """No cluster fitted at the last attempt, and one fits now. Nothing makes karmada-scheduler try again."""
    DELETING = "Deleting"


class Unscheduled(NamedTuple):
    """Why no scheduler looks at a workload, and the same in words."""

    reason: NotScheduled
    message: str


class SimulatedWorkload(msgspec.Struct, frozen=True):
    """A resource with its binding.

    Attributes:
        claims: the policies that match the resource. If the holder is known, it is the first one.
        binding: the binding that the control plane has or will write; None without one.
        template: the manifest of the resource; None if only its binding is known.
        replicas: the replicas of the manifest; those of the binding if the manifest does not say them.
        present: whether the control plane has the binding now, with this assignment.
        unscheduled: why no scheduler looks at it, as far as the binding does not say so; None otherwise.
        deferred: the binding that the next change of the template brings under a Lazy policy; None if it is the same.
        uncounted: why it is not known how many replicas it has; None if that is known, or if its binding says so.
        waits: what its policy waits for, so that neither policy nor template reach the binding; None for nothing.
        stalled_at: the spec of its binding when karmada-scheduler gave up on it; None if it has not (``stalls``).
        why_not: why each policy of ``claims`` does not hold the resource; empty for the holder.
        dependencies: the resources that it needs and that follow it (``propagateDeps``); None if they are not known.
        scripted: what the script of a control plane says that it needs; None for a kind without such a script.
        components_are_old: whether the components of its binding are those of an earlier template.
        overridden: the replicas that overrides set for a copy, by cluster (``overriding``).
    """

    resource: ObjectReference
    claims: tuple[Claim, ...]
    binding: Binding | None
    template: Mapping[str, Any] | None = None
    replicas: Replicas = _NO_REPLICAS
    held_by: PolicyReference | None = None
    present: bool = False
    unscheduled: Unscheduled | None = None
    deferred: Binding | None = None
    waits: Unscheduled | None = None
    uncounted: Unscheduled | None = None
    stalled_at: BindingSpec | None = None
    why_not: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    dependencies: tuple[Dependency, ...] | None = ()
    scripted: ScriptedDependencies | None = None
    components_are_old: bool = False
    overridden: Mapping[str, int] = {}

    def __str__(self) -> str:
        return str(self.name)

    @property
    def name(self) -> "ResourceName":
        return ResourceName(self.resource.namespace, self.resource.kind, self.resource.name)

    @property
    def claim(self) -> Claim | None:
        """The claim of the policy that holds the resource; None if there is none or it is unknown."""
        first = self.claims[0] if self.claims else None
        return first if first is not None and first.policy.reference == self.held_by else None

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the template; empty if it is not known."""
        metadata = (self.template or {}).get("metadata") or {}
        return metadata.get("labels") or {}

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The template; if only the binding is known, a manifest with the identity of the resource."""
        if self.template is not None:
            return self.template
        resource = self.resource
        metadata = {"name": resource.name, "namespace": resource.namespace, "uid": resource.uid}
        return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def clusters_of(binding: Binding) -> list[str]:
    """Return the names of the clusters that a binding assigns, and of those that it leaves."""
    spec = binding.spec
    return [*[each.name for each in spec.clusters], *[each.from_cluster for each in spec.graceful_eviction_tasks]]


class NamedObject(Protocol):
    """A resource with its kind, name and namespace."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...


class TypedObject(NamedObject, Protocol):
    """A resource with its API version, too."""

    @property
    def api_version(self) -> str: ...


class ResourceName(ParsedText):
    """A resource as people name it: ``KIND/NAME``, in any namespace, or ``NAMESPACE/KIND/NAME``.

    It is no dataclass, because msgspec would write one as an object instead of a text.
    """

    __slots__ = ("kind", "name", "namespace")

    def __init__(self, namespace: str, kind: str, name: str) -> None:
        self.namespace, self.kind, self.name = namespace, kind, name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResourceName) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    def __repr__(self) -> str:
        return f"ResourceName{self._parts}"

    @property
    def _parts(self) -> tuple[str, str, str]:
        return self.namespace, self.kind, self.name

    @classmethod
    def parse(cls, text: str) -> "ResourceName":
        parts = text.split("/")
        if len(parts) not in {2, 3} or not all(parts):
            accepted = "KIND/NAME or NAMESPACE/KIND/NAME, for example deploy/checkout"
            raise InputError(f"{shown(text)} is not a resource name; accepted is {accepted}")
        *namespace, kind, name = parts
        return cls(namespace[0] if namespace else "", kind, name)

    def text(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return object_name(self.namespace, self.kind, self.name)

    def matches(self, resource: NamedObject) -> bool:
        """Return whether this name means a resource. As in kubectl, the case of the kind is ignored."""
        return (
            self.kind.lower() == resource.kind.lower()
            and self.name == resource.name
            and self.namespace in {"", resource.namespace}
        )


_BindingKey = tuple[str, str]
_ResourceKey = tuple[str, str, str, str]


class DisputedField(Enum):
    """A field of policies that must be equal for all workloads with one dependency (karmada ``policy_utils.go``)."""

    CONFLICT_RESOLUTION = "conflictResolution"
    PRESERVE = "preserveResourcesOnDeletion"

    @property
    def counting(self) -> str:
        """The value that counts for the dependency if policies differ."""
        return "Overwrite" if self is DisputedField.CONFLICT_RESOLUTION else "true"

    def counts_for(self, binding: Binding | None) -> bool:
        """Return whether the binding of a workload that needs the dependency has the value that counts."""
        if binding is None:
            return False
        if self is DisputedField.CONFLICT_RESOLUTION:
            return binding.spec.conflict_resolution == self.counting
        return bool(binding.spec.preserve_resources_on_deletion)


@dataclass(frozen=True, slots=True)
class Companions:
    """The workloads that a workload follows, and those that follow it, by name.

    Attributes:
        missing: its dependencies that are not among the workloads.
        disputed: what the policies of the workloads that it follows say differently.
    """

    follows: tuple[str, ...] = ()
    followed_by: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    disputed: tuple[DisputedField, ...] = ()

    def seen_by(self, reader: Reader) -> "Companions":
        """Return the same with a phrase instead of the workloads that a reader may not see."""
        named = reader.named
        return Companions(
            tuple(named(self.follows)), tuple(named(self.followed_by)), tuple(named(self.missing)), self.disputed
        )


NO_COMPANIONS = Companions()


def follow(workloads: Sequence[SimulatedWorkload]) -> Sequence[SimulatedWorkload]:
    """Return the workloads with the snapshots of their leaders up to date, as Karmada's distributor writes them.

    Returns the same object if none leads or follows another one.
    """
    index = _Index(workloads)
    if not index.involved:
        return workloads
    snapshots = index.snapshots()
    return [
        _following(workload, index, snapshots.get(position, {})) if position in index.followers else workload
        for position, workload in enumerate(workloads)
    ]


def leaders_of(workloads: Sequence[SimulatedWorkload]) -> dict[int, set[int]]:
    """Return the workloads that each dependency follows or may follow, by position."""
    index = _Index(workloads)
    found: dict[int, set[int]] = {}
    for position, snapshots in index.snapshots().items():
        found.setdefault(position, set()).update(index.leaders[key] for key in snapshots)
    for position in index.followers:
        binding = workloads[position].binding
        recorded = binding.spec.required_by if binding is not None else ()
        keys = ((each.namespace, each.name) for each in recorded)
        found.setdefault(position, set()).update(index.leaders[key] for key in keys if key in index.leaders)
    return found


def companions(workloads: Sequence[SimulatedWorkload]) -> dict[int, Companions]:
    """Return which workloads follow which, by position; without an entry for workloads that are not concerned."""
    index = _Index(workloads)
    follows: dict[int, list[str]] = {}
    followed_by: dict[int, list[str]] = {}
    for position in sorted(index.followers):
        workload = workloads[position]
        for snapshot in workload.binding.spec.required_by if workload.binding is not None else ():
            leader = index.leaders.get((snapshot.namespace, snapshot.name))
            follows.setdefault(position, []).append(
                str(workloads[leader]) if leader is not None else _binding_of(snapshot)
            )
            if leader is not None:
                followed_by.setdefault(leader, []).append(str(workload))
    differing = {
        position: tuple(disputed(binding, [workloads[each].binding for each in _leading(index, binding)]))
        for position in follows
        for binding in (workloads[position].binding,)
    }
    missing = {position: index.missing(workloads[position]) for position in index.propagating}
    concerned = {*follows, *followed_by, *(position for position, names in missing.items() if names)}
    return {
        position: Companions(
            tuple(follows.get(position, ())),
            tuple(followed_by.get(position, ())),
            missing.get(position, ()),
            differing.get(position, ()),
        )
        for position in sorted(concerned)
    }


def disputed(dependency: Binding | None, leaders: Iterable[Binding | None]) -> Iterator[DisputedField]:
    """Yield the fields in which the bindings of the workloads that a dependency follows differ.

    The values of a dependency that a policy places itself are those of its policy.
    """
    if dependency is None or dependency.spec.placement is None:
        known = [each for each in leaders if each is not None]
        yield from (field for field in DisputedField if len({field.counts_for(each) for each in known}) > 1)


def _leading(index: "_Index", binding: Binding | None) -> Iterator[int]:
    """Yield the position of each workload that a dependency follows."""
    for each in binding.spec.required_by if binding is not None else ():
        if (position := index.leaders.get((each.namespace, each.name))) is not None:
            yield position


def _binding_of(snapshot: BindingSnapshot) -> str:
    """Return the name of a binding whose workload is not known, as ``NAMESPACE/KIND/NAME``."""
    if not snapshot.namespace:
        return f"ClusterResourceBinding/{snapshot.name}"
    return f"{snapshot.namespace}/ResourceBinding/{snapshot.name}"


class _Index:
    """The leaders of a set of workloads, and where their dependencies are."""

    def __init__(self, workloads: Sequence[SimulatedWorkload]) -> None:
        self._workloads = workloads
        self.propagating: list[int] = []
        self.followers: set[int] = set()
        for position, workload in enumerate(workloads):
            binding = workload.binding
            if binding is None:
                continue
            if binding.spec.propagate_deps and workload.resource.namespace:
                self.propagating.append(position)
            if binding.spec.required_by:
                self.followers.add(position)
        self.involved = bool(self.propagating or self.followers)
        self.leaders: dict[_BindingKey, int] = {}
        if self.involved:
            bindings = ((position, each.binding) for position, each in enumerate(workloads))
            self.leaders = {each.metadata.key: position for position, each in bindings if each is not None}
        self._by_name: Mapping[_ResourceKey, int] = (
            {_key(each): position for position, each in enumerate(workloads)} if self.propagating else {}
        )

    def snapshots(self) -> dict[int, dict[_BindingKey, BindingSnapshot]]:
        found: dict[int, dict[_BindingKey, BindingSnapshot]] = {}
        for position in self.propagating:
            binding = self._workloads[position].binding
            if binding is None:
                continue
            key = binding.metadata.key
            for dependency in self._workloads[position].dependencies or ():
                for needed in self._resolved(dependency):
                    found.setdefault(needed, {})[key] = BindingSnapshot(key[1], key[0], as_moved(binding).spec.clusters)
        self.followers.update(found)
        return found

    def missing(self, workload: SimulatedWorkload) -> tuple[str, ...]:
        return tuple(str(each) for each in workload.dependencies or () if not any(True for _ in self._resolved(each)))

    def keeps(self, key: _BindingKey) -> BindingSnapshot | None:
        """Return the snapshot of a leader whose dependencies are not known; None for another leader."""
        position = self.leaders.get(key)
        workload = self._workloads[position] if position is not None else None
        if workload is None or workload.binding is None or workload.dependencies is not None:
            return None
        return BindingSnapshot(key[1], key[0], as_moved(workload.binding).spec.clusters)

    def _resolved(self, dependency: Dependency) -> Iterator[int]:
        kind = dependency.api_version, dependency.kind, dependency.namespace
        if dependency.name:
            position = self._by_name.get((*kind, dependency.name))
            if position is not None:
                yield position
        elif dependency.label_selector is not None:
            for key, position in self._by_name.items():
                template = self._workloads[position].template if key[:3] == kind else None
                if template is not None and dependency.label_selector.matches(template_of(template).labels):
                    yield position


def _following(
    workload: SimulatedWorkload, index: _Index, wanted: Mapping[_BindingKey, BindingSnapshot]
) -> SimulatedWorkload:
    """Return a dependency with the snapshots of its leaders: known ones updated, those of other leaders unchanged."""
    binding = workload.binding
    kept: list[BindingSnapshot] = []
    for snapshot in binding.spec.required_by if binding is not None else ():
        key = snapshot.namespace, snapshot.name
        if key in wanted:
            kept.append(wanted[key])
        elif key not in index.leaders:
            kept.append(snapshot)
        elif (current := index.keeps(key)) is not None:
            kept.append(current)
    known = {(each.namespace, each.name) for each in kept}
    # Karmada attaches a dependency once its leader has clusters.
    kept += [each for key, each in wanted.items() if key not in known and each.clusters]
    if binding is None:
        resource = workload.resource
        attached = Binding(
            spec=BindingSpec(resource=resource, required_by=tuple(kept)),
            metadata=ObjectMeta(name=binding_name(resource.kind, resource.name), namespace=resource.namespace),
        )
        return replace(workload, binding=attached, unscheduled=None) if kept else workload
    if tuple(kept) == binding.spec.required_by:
        return workload
    return replace(workload, binding=with_spec(binding, required_by=tuple(kept)))


def _key(workload: SimulatedWorkload) -> _ResourceKey:
    resource = workload.resource
    return resource.api_version, resource.kind, resource.namespace, resource.name
