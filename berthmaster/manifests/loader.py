"""Documents sorted into what scheduling needs: clusters, policies, bindings, and the resources to place."""

import gc
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeVar

from berthmaster.manifests.document import DEFAULT_LIMITS, Document, ManifestLimits
from berthmaster.manifests.files import read_documents
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster, Node, cluster_of_node
from berthmaster.model.decode import convert, unknown_fields
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.kinds import group_of, is_namespaced, reason_not_propagated
from berthmaster.model.kubeadmiral import (
    FederatedCluster,
    KubeAdmiralPolicy,
    SchedulingProfile,
    as_cluster,
    defaulted_spec,
)
from berthmaster.model.meta import Value
from berthmaster.model.policy import DEFAULT_NAMESPACE, Policy, defaulted
from berthmaster.model.quantity import negative_amounts
from berthmaster.model.validation import binding_errors, cluster_errors, policy_errors

V = TypeVar("V", bound=Value)

_CLUSTER: Final = "cluster.karmada.io/v1alpha1"
_POLICY: Final = "policy.karmada.io/v1alpha1"
_FEDERATION: Final = "core.kubeadmiral.io/v1alpha1"
_BINDING: Final = "work.karmada.io/v1alpha2"
_NODE: Final = ("v1", "Node")


class Ignored(NamedTuple):
    """A document that plays no part, and why."""

    document: Document
    reason: str


@dataclass(slots=True)
class FederationManifests:
    """What a set of files says of a KubeAdmiral federation.

    Attributes:
        clusters: its members, as the scheduling core sees them.
        policies: both kinds, with the defaults of their CRDs.
        profiles: that policies name.
    """

    clusters: list[Cluster] = field(default_factory=list)
    policies: list[KubeAdmiralPolicy] = field(default_factory=list)
    profiles: list[SchedulingProfile] = field(default_factory=list)


@dataclass(slots=True)
class Manifests:
    """What a set of files says, in the order in which it was read.

    Attributes:
        clusters: the fleet, one or more, each name once.
        policies: both kinds, with their defaults (``policy.defaulted``).
        bindings: where workloads are now, as far as the files say.
        templates: every other resource. A namespaced one has its namespace in ``raw``.
        ignored: what is never propagated.
        federation: what is KubeAdmiral's. Clusters of it do not go with those of Karmada.
    """

    clusters: list[Cluster] = field(default_factory=list)
    policies: list[Policy] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    templates: list[Document] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)
    federation: FederationManifests = field(default_factory=FederationManifests)


def load_manifests(
    paths: Iterable[str | Path], *, stdin: BinaryIO | None = None, limits: ManifestLimits = DEFAULT_LIMITS
) -> Manifests:
    """Read and sort everything that the paths hold; see ``read_documents`` for what a path may be.

    Raises:
        ManifestError: at the first document that is wrong or stands twice.
        InputError: there is no cluster, and no node that could stand for one.
    """
    given = [str(path) for path in paths]
    sorter = _Sorter()
    with _collector_paused():
        for document in read_documents(given, stdin=stdin, limits=limits):
            sorter.take(document)
    manifests = sorter.manifests
    if not manifests.clusters and not manifests.federation.clusters:
        sorter.take_nodes_for_clusters()
    if not manifests.clusters and not manifests.federation.clusters:
        raise InputError(
            f"no cluster in {', '.join(given)}: pass manifests of kind Cluster ({_CLUSTER}) or FederatedCluster "
            f"({_FEDERATION}) as well, such as the output of `kubectl get clusters -o yaml`"
        )
    if manifests.clusters and manifests.federation.clusters:
        raise InputError(
            f"both Clusters and FederatedClusters in {', '.join(given)}: a workload is scheduled by Karmada or by "
            "KubeAdmiral; pass the clusters of one of them"
        )
    return manifests


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Halve the time of a large fleet: all that is read stays, and the collector would look at it again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Sorter:
    """Puts each document where it belongs, once."""

    def __init__(self) -> None:
        self.manifests = Manifests()
        self._places: dict[Hashable, Document] = {}

    def take(self, document: Document) -> None:
        """Sort one document in."""
        group, kind = group_of(document.api_version), document.kind
        match group, kind:
            case "cluster.karmada.io", "Cluster":
                self._cluster(document)
            case "policy.karmada.io", "PropagationPolicy" | "ClusterPropagationPolicy":
                self._policy(document)
            case "work.karmada.io", "ResourceBinding" | "ClusterResourceBinding":
                self._binding(document)
            case "core.kubeadmiral.io", "FederatedCluster":
                self._federated_cluster(document)
            case "core.kubeadmiral.io", "PropagationPolicy" | "ClusterPropagationPolicy":
                self._federated_policy(document)
            case "core.kubeadmiral.io", "SchedulingProfile":
                self._profile(document)
            case _:
                self._template(document)

    def _federated_cluster(self, document: Document) -> None:
        federated = _decoded(FederatedCluster, document, _FEDERATION)
        _refuse(document, negative_amounts("status.resources.allocatable", federated.status.resources.allocatable))
        cluster = as_cluster(federated)
        self._claim_place(document, "FederatedCluster", "", cluster.name)
        self.manifests.federation.clusters.append(cluster)

    def _federated_policy(self, document: Document) -> None:
        _refuse(document, unknown_fields(KubeAdmiralPolicy, document.raw))
        document = _with_namespace(document) if document.kind == "PropagationPolicy" else document
        spec = document.raw.get("spec")
        raw = {**document.raw, "spec": defaulted_spec(spec)} if isinstance(spec, dict) else document.raw
        policy = _decoded(
            KubeAdmiralPolicy, Document(document.source, document.number, document.prefix, raw), _FEDERATION
        )
        place = (_FEDERATION, policy.kind)
        self._claim_place(document, place, policy.metadata.namespace, policy.metadata.name)
        self.manifests.federation.policies.append(policy)

    def _profile(self, document: Document) -> None:
        _refuse(document, unknown_fields(SchedulingProfile, document.raw))
        profile = _decoded(SchedulingProfile, document, _FEDERATION)
        self._claim_place(document, "SchedulingProfile", "", profile.metadata.name)
        self.manifests.federation.profiles.append(profile)

    def take_nodes_for_clusters(self) -> None:
        """Where there are no clusters, nodes are: those of a control plane whose nodes stand for clusters.

        Raises:
            ManifestError: a node is wrong.
        """
        documents, self.manifests.templates = self.manifests.templates, []
        for document in documents:
            if (document.api_version, document.kind) != _NODE:
                self.manifests.templates.append(document)
                continue
            cluster = cluster_of_node(_decoded(Node, document, document.api_version))
            _refuse(document, cluster_errors(cluster))
            self.manifests.clusters.append(cluster)

    def _cluster(self, document: Document) -> None:
        cluster = _decoded(Cluster, document, _CLUSTER)
        _refuse(document, cluster_errors(cluster))
        self._claim_place(document, "Cluster", "", cluster.name)
        self.manifests.clusters.append(cluster)

    def _policy(self, document: Document) -> None:
        _refuse(document, unknown_fields(Policy, document.raw))
        policy = defaulted(_decoded(Policy, document, _POLICY))
        _refuse(document, policy_errors(policy))
        self._claim_place(document, policy.kind, policy.metadata.namespace, policy.metadata.name)
        self.manifests.policies.append(policy)

    def _binding(self, document: Document) -> None:
        binding = _decoded(Binding, _with_namespace(document), _BINDING)
        _refuse(document, binding_errors(binding))
        self._claim_place(document, binding.kind, binding.metadata.namespace, binding.metadata.name)
        self.manifests.bindings.append(binding)

    def _template(self, document: Document) -> None:
        document = _with_namespace(document)
        reason = reason_not_propagated(document.api_version, document.kind, document.namespace)
        if reason is not None:
            self.manifests.ignored.append(Ignored(document, reason))
            return
        self._claim_place(document, (group_of(document.api_version), document.kind), document.namespace, document.name)
        self.manifests.templates.append(document)

    def _claim_place(self, document: Document, kind: Hashable, namespace: str, name: str) -> None:
        """Remember where an object stands.

        Raises:
            ManifestError: the same object stands somewhere else as well.
        """
        first = self._places.setdefault((kind, namespace, name), document)
        if first is not document:
            shown_name = f"{namespace}/{name}" if namespace else name
            problem = f"{document.kind} {shown_name!r} is already defined in {first.place}"
            raise document.error(FieldError("metadata.name", problem))


def _decoded(kind: type[V], document: Document, api_version: str) -> V:
    if document.api_version != api_version:
        problem = f"{document.api_version!r} is not accepted; accepted is {api_version!r}"
        raise document.error(FieldError("apiVersion", problem))
    try:
        return convert(kind, document.raw)
    except FieldError as error:
        raise document.error(error) from None


def _refuse(document: Document, errors: Iterable[FieldError]) -> None:
    """Raise the first of the errors, if there is one."""
    for error in errors:
        raise document.error(error)


def _with_namespace(document: Document) -> Document:
    """The document with the namespace that ``kubectl apply`` would give it."""
    if not is_namespaced(document.api_version, document.kind):
        return document
    if document.namespace:
        return document
    metadata = {**document.raw["metadata"], "namespace": DEFAULT_NAMESPACE}
    return Document(document.source, document.number, document.prefix, {**document.raw, "metadata": metadata})
