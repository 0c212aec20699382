"""A workload of a simulation: a resource with its binding, and what is known about both."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from berthmaster.model.binding import Binding, BindingSpec, ObjectReference
from berthmaster.model.claims import Claim
from berthmaster.model.interpretation import Dependency
from berthmaster.model.policy import PolicyReference
from berthmaster.model.replicas import Replicas
from berthmaster.scheduling.kubeadmiral.preparation import UnitWorkload

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


@dataclass(frozen=True, slots=True)
class SimulatedWorkload:
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
    def manifest(self) -> Mapping[str, Any]:
        """The template; if only the binding is known, a manifest with the identity of the resource."""
        if self.template is not None:
            return self.template
        resource = self.resource
        metadata = {"name": resource.name, "namespace": resource.namespace, "uid": resource.uid}
        return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


@dataclass(frozen=True, slots=True)
class ResourceName:
    """A resource as named on the command line: ``KIND/NAME``, in any namespace, or ``NAMESPACE/KIND/NAME``."""

    namespace: str
    kind: str
    name: str

    @classmethod
    def parse(cls, text: str) -> "ResourceName | None":
        parts = text.split("/")
        if len(parts) not in {2, 3} or not all(parts):
            return None
        *namespace, kind, name = parts
        return cls(namespace[0] if namespace else "", kind, name)

    def __str__(self) -> str:
        return "/".join(part for part in (self.namespace, self.kind, self.name) if part)

    def matches(self, resource: ObjectReference | UnitWorkload) -> bool:
        """Return whether this name means a resource. As in kubectl, the case of the kind is ignored."""
        return (
            self.kind.lower() == resource.kind.lower()
            and self.name == resource.name
            and self.namespace in {"", resource.namespace}
        )
