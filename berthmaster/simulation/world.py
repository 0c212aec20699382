"""The clusters and workloads of a simulation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from berthmaster.manifests import Manifests
from berthmaster.model.binding import Binding, ObjectReference, binding_name, binding_of
from berthmaster.model.claims import Claim, claims
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import FieldError
from berthmaster.model.policy import Policy
from berthmaster.model.replicas import ReplicaPath, Replicas, replicas_of, template_of
from berthmaster.scheduling.kubeadmiral.preparation import UnitWorkload

_NO_REPLICAS: Final = Replicas()


@dataclass(frozen=True, slots=True)
class SimulatedWorkload:
    """A resource with its binding.

    Attributes:
        resource: the identity of the resource.
        claims: the policies that match the resource, starting with the one that claims it.
        binding: the binding; None if no policy claims the resource.
        template: the manifest of the resource; None if only its binding is known.
        replicas: the replicas of the manifest.
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
        """The claim of the policy that claims the resource; None if there is none or it is unknown."""
        return self.claims[0] if self.claims else None

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
        """Parse a name; return None if the text is not one."""
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


@dataclass(frozen=True, slots=True)
class World:
    """Clusters, workloads and policies.

    Attributes:
        clusters: the clusters by name.
        workloads: the workloads, in the order of scheduling.
        policies: the policies that may claim workloads, with their defaults.
        workload_affinity: whether Karmada's gate ``WorkloadAffinity`` is on.
    """

    clusters: Mapping[str, Cluster]
    workloads: Sequence[SimulatedWorkload]
    policies: Sequence[Policy] = ()
    workload_affinity: bool = False

    def find(self, name: ResourceName) -> list[SimulatedWorkload]:
        return [workload for workload in self.workloads if name.matches(workload.resource)]


def world_of(
    manifests: Manifests, replica_paths: Sequence[ReplicaPath] = (), *, workload_affinity: bool = False
) -> World:
    """Build the world that manifests describe: each resource, the policies that match it, and its binding.

    A binding whose resource is not among the manifests becomes a workload without a template.

    Raises:
        ManifestError: a field of a resource that affects decisions is invalid.
    """
    bindings = {_identity(binding.spec.resource): binding for binding in manifests.bindings}
    workloads = []
    for document in manifests.templates:
        raw = document.raw
        try:
            template, replicas = template_of(raw), replicas_of(raw, replica_paths)
        except FieldError as error:
            raise document.error(error) from None
        resource = ObjectReference(template.api_version, template.kind, template.name, template.namespace)
        binding = bindings.pop(_identity(resource), None)
        matching = tuple(claims(template, manifests.policies))
        if matching:
            claiming = matching[0].policy
            binding = binding_of(raw, claiming, replicas, current=binding, workload_affinity=workload_affinity)
        workloads.append(SimulatedWorkload(resource, matching, binding, raw, replicas))
    workloads += [SimulatedWorkload(binding.spec.resource, (), binding) for binding in bindings.values()]
    clusters = {cluster.name: cluster for cluster in manifests.clusters}
    return World(clusters, workloads, tuple(manifests.policies), workload_affinity)


def _identity(resource: ObjectReference) -> tuple[str, str]:
    """Return the key by which Karmada identifies the binding of a resource: its namespace and name."""
    return resource.namespace, binding_name(resource.kind, resource.name)
