"""The clusters and workloads of a simulation."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from berthmaster.manifests import Manifests
from berthmaster.model.binding import Binding, ObjectReference, binding_name, binding_of
from berthmaster.model.claims import Claim, claims
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import FieldError
from berthmaster.model.policy import Policy
from berthmaster.model.replicas import ReplicaPath, Replicas, replicas_of, template_of

_NO_REPLICAS: Final = Replicas()


@dataclass(frozen=True, slots=True)
class SimulatedWorkload:
    """A resource and what becomes of it.

    Attributes:
        resource: what it is.
        claims: the policies that match it, the one that claims it first.
        binding: its binding; None if no policy claims it.
        template: the resource itself; None where only its binding is known.
        replicas: what the template says of them.
    """

    resource: ObjectReference
    claims: tuple[Claim, ...]
    binding: Binding | None
    template: Mapping[str, Any] | None = None
    replicas: Replicas = _NO_REPLICAS

    def __str__(self) -> str:
        return str(ResourceName(self.resource.namespace, self.resource.kind, self.resource.name))

    @property
    def claim(self) -> Claim | None:
        """The policy that claims it, as far as it is known."""
        return self.claims[0] if self.claims else None


@dataclass(frozen=True, slots=True)
class ResourceName:
    """A resource as commands name it: ``KIND/NAME`` or ``NAMESPACE/KIND/NAME``; no namespace means any."""

    namespace: str
    kind: str
    name: str

    @classmethod
    def parse(cls, text: str) -> "ResourceName | None":
        """Read such a name; None if it is none."""
        parts = text.split("/")
        if len(parts) not in {2, 3} or not all(parts):
            return None
        *namespace, kind, name = parts
        return cls(namespace[0] if namespace else "", kind, name)

    def __str__(self) -> str:
        return "/".join(part for part in (self.namespace, self.kind, self.name) if part)

    def names(self, resource: ObjectReference) -> bool:
        """Whether it means a resource; kinds are compared without regard to case, as kubectl does."""
        return (
            self.kind.lower() == resource.kind.lower()
            and self.name == resource.name
            and self.namespace in {"", resource.namespace}
        )


@dataclass(frozen=True, slots=True)
class World:
    """Clusters by name, and workloads.

    Attributes:
        policies: those that may claim workloads, with their defaults.
        workload_affinity: whether groups of workloads count (Karmada's gate ``WorkloadAffinity``).
    """

    clusters: Mapping[str, Cluster]
    workloads: Sequence[SimulatedWorkload]
    policies: Sequence[Policy] = ()
    workload_affinity: bool = False

    def find(self, name: ResourceName) -> list[SimulatedWorkload]:
        """The workloads that a name means."""
        return [workload for workload in self.workloads if name.names(workload.resource)]


class Claimant:
    """Gives resources to policies, and to the bindings they have already."""

    def __init__(
        self,
        policies: Sequence[Policy],
        bindings: Iterable[Binding],
        replica_paths: Sequence[ReplicaPath] = (),
        *,
        workload_affinity: bool = False,
    ) -> None:
        self._policies = policies
        self._bindings = {_identity(binding.spec.resource): binding for binding in bindings}
        self._replica_paths = replica_paths
        self._workload_affinity = workload_affinity

    def claim(self, raw: Mapping[str, Any]) -> SimulatedWorkload:
        """The workload that a resource is.

        Raises:
            FieldError: something in it that decides has a wrong value.
        """
        template = template_of(raw)
        replicas = replicas_of(raw, self._replica_paths)
        resource = ObjectReference(template.api_version, template.kind, template.name, template.namespace)
        current = self._bindings.pop(_identity(resource), None)
        matching = tuple(claims(template, self._policies))
        if not matching:
            return SimulatedWorkload(resource, (), current, raw, replicas)
        binding = binding_of(
            raw, matching[0].policy, replicas, current=current, workload_affinity=self._workload_affinity
        )
        return SimulatedWorkload(resource, matching, binding, raw, replicas)

    def unclaimed(self) -> list[SimulatedWorkload]:
        """The bindings whose resource was never shown: they say all of it themselves."""
        return [SimulatedWorkload(binding.spec.resource, (), binding) for binding in self._bindings.values()]


def _identity(resource: ObjectReference) -> tuple[str, str]:
    """Karmada's own: the binding's name and namespace."""
    return resource.namespace, binding_name(resource.kind, resource.name)


def world_of(
    manifests: Manifests, replica_paths: Sequence[ReplicaPath] = (), *, workload_affinity: bool = False
) -> World:
    """The world that manifests describe: every resource with the policies that match it and the binding it has.

    Raises:
        ManifestError: something in a resource that decides has a wrong value.
    """
    claimant = Claimant(manifests.policies, manifests.bindings, replica_paths, workload_affinity=workload_affinity)
    workloads = []
    for document in manifests.templates:
        try:
            workloads.append(claimant.claim(document.raw))
        except FieldError as error:
            raise document.error(error) from None
    clusters = {cluster.name: cluster for cluster in manifests.clusters}
    return World(clusters, [*workloads, *claimant.unclaimed()], tuple(manifests.policies), workload_affinity)
