"""Loading of manifests: decoding, defaults, and errors that name file, document and field."""

import gc
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import msgspec.structs

from berthmaster.manifests.document import DEFAULT_LIMITS, Document, Identity, ManifestLimits
from berthmaster.manifests.files import read_documents
from berthmaster.manifests.objects import FederatedDocument, Ignored, Manifests
from berthmaster.manifests.overlay import dump_sources, over_dumps
from berthmaster.manifests.snapshot import SNAPSHOT_GROUP, FleetSnapshot
from berthmaster.model import taint_policy
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster, Node, cluster_of_node
from berthmaster.model.decode import convert, unknown_fields
from berthmaster.model.errors import FieldError, InputError, ManifestError
from berthmaster.model.existing import WAITED_FOR
from berthmaster.model.federated_object import FederatedObject
from berthmaster.model.interpretation import ResourceInterpreterCustomization
from berthmaster.model.kinds import group_of, reason_not_propagated
from berthmaster.model.kubeadmiral import (
    FederatedCluster,
    KubeAdmiralPolicy,
    SchedulerPluginWebhookConfiguration,
    SchedulingProfile,
    as_cluster,
    defaulted_spec,
)
from berthmaster.model.meta import Value
from berthmaster.model.policy import Policy, defaulted
from berthmaster.model.quantity import negative_amounts
from berthmaster.model.rebalancer import WorkloadRebalancer
from berthmaster.model.taint_policy import ClusterTaintPolicy
from berthmaster.model.unsupported import checked_placement
from berthmaster.model.validation import binding_errors, cluster_errors, policy_errors

T = TypeVar("T", bound=Value)
V = TypeVar("V")

_CLUSTER: Final = "cluster.karmada.io/v1alpha1"
_POLICY: Final = "policy.karmada.io/v1alpha1"
_KUBEADMIRAL: Final = "core.kubeadmiral.io"
_FEDERATION: Final = f"{_KUBEADMIRAL}/v1alpha1"
_BINDING: Final = "work.karmada.io/v1alpha2"
_REBALANCER: Final = "apps.karmada.io/v1alpha1"
_CUSTOMIZATION: Final = "config.karmada.io/v1alpha1"
_NODE: Final = ("v1", "Node")
_IN_PLACEMENT: Final = "spec.placement."


def load_manifests(
    paths: Iterable[str | Path],
    *,
    stdin: BinaryIO | None = None,
    limits: ManifestLimits = DEFAULT_LIMITS,
    lenient: bool = False,
    hold_unknown: bool = True,
) -> Manifests:
    """Load all manifests of the paths; see ``read_documents`` for paths, and ``manifests_of`` for the rest.

    Raises:
        ManifestError, InputError: as ``manifests_of``.
    """
    given = [str(path) for path in paths]
    with _collector_paused():
        documents = list(read_documents(given, stdin=stdin, limits=limits))
        return manifests_of(documents, ", ".join(given), lenient=lenient, hold_unknown=hold_unknown)


def manifests_of(
    documents: Iterable[Document], origin: str, *, lenient: bool = False, hold_unknown: bool = True
) -> Manifests:
    """Return the manifests of documents, wherever they were read: files, an API server, a dump.

    Without clusters, nodes count as clusters: those of a control plane whose nodes represent clusters. Objects of files
    replace those of a dump (``overlay``). An object that a control plane stores is left out if it is invalid, and
    reported as a gap: the user cannot correct it in a file.

    Args:
        documents: the documents.
        origin: where they were read, for errors.
        lenient: whether a misspelled field of a policy is a warning. A field without a similar known one is a warning
            in any case, and so is one of a stored policy: both come from another version of Karmada.
        hold_unknown: whether such fields make a placement an ``UnsupportedPlacement``. Otherwise they are ignored.

    Raises:
        ManifestError: at the first invalid or duplicate document of a file.
        InputError: there is no cluster and no node, or there are clusters of both control planes.
    """
    with _collector_paused():
        given = [each.with_namespace() for each in documents]
        loader = _Loader(dump_sources(given), lenient=lenient, hold_unknown=hold_unknown)
        for document in over_dumps(given):
            loader.add(document)
    manifests = loader.manifests
    if not manifests.clusters and not manifests.federation.clusters:
        loader.use_nodes_as_clusters()
    if not manifests.clusters and not manifests.federation.clusters:
        raise InputError(
            f"no cluster in {origin}: pass manifests of kind Cluster ({_CLUSTER}) or FederatedCluster "
            f"({_FEDERATION}) as well, such as the output of `kubectl get clusters -o yaml`"
        )
    if manifests.clusters and manifests.federation.clusters:
        raise InputError(
            f"both Clusters and FederatedClusters in {origin}: a workload is scheduled by Karmada or by "
            "KubeAdmiral; pass the clusters of one of them"
        )
    return manifests


def objects_of(documents: Iterable[Document], *, lenient: bool = False, hold_unknown: bool = True) -> Manifests:
    """Return the manifests of documents that need not contain a cluster, such as those that a change applies.

    Args:
        documents: the documents.
        lenient: as for ``manifests_of``.
        hold_unknown: as for ``manifests_of``.

    Raises:
        ManifestError: at the first invalid or duplicate document of a file.
    """
    loader = _Loader(frozenset(), lenient=lenient, hold_unknown=hold_unknown)
    for document in documents:
        loader.add(document.with_namespace())
    return loader.manifests


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the garbage collector. It halves the loading time of a large fleet, because all objects stay alive."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Loader:
    """Adds documents to manifests and rejects duplicates."""

    def __init__(self, dumps: Container[str], *, lenient: bool, hold_unknown: bool) -> None:
        self.manifests = Manifests(dumps=dumps)
        self._lenient = lenient
        self._hold_unknown = hold_unknown
        self._documents: dict[Identity, Document] = {}
        self._readers: Mapping[tuple[str, str], Callable[[Document], None]] = {
            ("cluster.karmada.io", "Cluster"): self._cluster,
            ("policy.karmada.io", "PropagationPolicy"): self._policy,
            ("policy.karmada.io", "ClusterPropagationPolicy"): self._policy,
            ("work.karmada.io", "ResourceBinding"): self._binding,
            ("work.karmada.io", "ClusterResourceBinding"): self._binding,
            ("apps.karmada.io", "WorkloadRebalancer"): self._rebalancer,
            ("config.karmada.io", "ResourceInterpreterCustomization"): self._customization,
            (_KUBEADMIRAL, "FederatedCluster"): self._federated_cluster,
            (_KUBEADMIRAL, "PropagationPolicy"): self._federated_policy,
            (_KUBEADMIRAL, "ClusterPropagationPolicy"): self._federated_policy,
            (_KUBEADMIRAL, "SchedulingProfile"): self._profile,
            (_KUBEADMIRAL, "SchedulerPluginWebhookConfiguration"): self._webhook,
            (_KUBEADMIRAL, "FederatedObject"): self._federated_object,
            (_KUBEADMIRAL, "ClusterFederatedObject"): self._federated_object,
            (SNAPSHOT_GROUP, FleetSnapshot.__name__): self._snapshot,
        }

    def add(self, document: Document) -> None:
        try:
            self._add(document)
        except ManifestError as error:
            self.manifests.leave_out(document, error)

    def _add(self, document: Document) -> None:
        if document.applied:
            self.manifests.applied.add(document.identity)
        group = group_of(document.api_version)
        read = self._readers.get((group, document.kind))
        if read is not None:
            read(document)
        elif group == _KUBEADMIRAL:
            self.manifests.ignored.append(Ignored(document, "an object of KubeAdmiral itself, not a workload"))
        else:
            self._template(document)

    def use_nodes_as_clusters(self) -> None:
        documents, self.manifests.templates = self.manifests.templates, []
        for document in documents:
            if (document.api_version, document.kind) != _NODE:
                self.manifests.templates.append(document)
                continue
            cluster = cluster_of_node(_decoded(Node, document, document.api_version))
            _reject(document, cluster_errors(cluster))
            self.manifests.clusters.append(cluster)

    def _cluster(self, document: Document) -> None:
        cluster = _decoded(Cluster, document, _CLUSTER)
        _reject(document, cluster_errors(cluster))
        self._append(self.manifests.clusters, cluster, document)

    def _policy(self, document: Document) -> None:
        policy = defaulted(_decoded(Policy, document, _POLICY))
        policy = self._with_checked_fields(policy, document)
        _reject(document, policy_errors(policy))
        self.manifests.policy_documents.append(document)
        self._append(self.manifests.policies, policy, document)
        if document.applied:
            self.manifests.policy_edits.append((self._replaced_policy(document), policy))

    def _replaced_policy(self, document: Document) -> Policy | None:
        """Return the stored policy that a document replaces; None without one, or if it is invalid."""
        if document.replaced is None:
            return None
        stored = replace(document, raw=document.replaced, applied=False, replaced=None)
        reported = len(self.manifests.warnings)
        try:
            return self._with_checked_fields(defaulted(_decoded(Policy, stored, _POLICY)), stored)
        except ManifestError:
            return None
        finally:
            del self.manifests.warnings[reported:]  # they are about what the document replaces

    def _with_checked_fields(self, policy: Policy, document: Document) -> Policy:
        """Reject misspelled fields of a policy, and warn about fields that another version of Karmada may have.

        Returns:
            The policy, with an ``UnsupportedPlacement`` if such fields are in its placement and count.
        """
        held = False
        for error in unknown_fields(Policy, document.raw):
            if error.path.partition(".")[0] == "status":
                continue
            misspelled = error.misspelled and not document.stored
            if misspelled and not self._lenient:
                raise document.error(error)
            holds = self._hold_unknown and not misspelled and error.path.startswith(_IN_PLACEMENT)
            held = held or holds
            effect = "no decision on its workloads is simulated" if holds else "it is ignored"
            self.manifests.warnings.append(f"{document.error(error)}; {effect}")
        if not held:
            return policy
        placement = checked_placement(policy.spec.placement, document.raw["spec"]["placement"])
        return msgspec.structs.replace(policy, spec=msgspec.structs.replace(policy.spec, placement=placement))

    def _binding(self, document: Document) -> None:
        binding = _decoded(Binding, document, _BINDING)
        placement = binding.spec.placement
        if self._hold_unknown and placement is not None:
            checked = checked_placement(placement, document.raw["spec"]["placement"])
            if checked is not placement:
                binding = msgspec.structs.replace(
                    binding, spec=msgspec.structs.replace(binding.spec, placement=checked)
                )
        _reject(document, binding_errors(binding))
        self._append(self.manifests.bindings, binding, document)

    def _rebalancer(self, document: Document) -> None:
        rebalancer = _decoded(WorkloadRebalancer, document, _REBALANCER)
        self._append(self.manifests.rebalancers, rebalancer, document)

    def _customization(self, document: Document) -> None:
        customization = _decoded(ResourceInterpreterCustomization, document, _CUSTOMIZATION)
        self._append(self.manifests.customizations, customization, document)

    def _federated_cluster(self, document: Document) -> None:
        federated = _decoded(FederatedCluster, document, _FEDERATION)
        _reject(document, negative_amounts("status.resources.allocatable", federated.status.resources.allocatable))
        self._append(self.manifests.federation.clusters, as_cluster(federated), document)

    def _federated_policy(self, document: Document) -> None:
        _reject(document, unknown_fields(KubeAdmiralPolicy, document.raw))
        spec = document.raw.get("spec")
        raw = {**document.raw, "spec": defaulted_spec(spec)} if isinstance(spec, dict) else document.raw
        policy = _decoded(KubeAdmiralPolicy, replace(document, raw=raw), _FEDERATION)
        self._append(self.manifests.federation.policies, policy, document)

    def _profile(self, document: Document) -> None:
        _reject(document, unknown_fields(SchedulingProfile, document.raw))
        profile = _decoded(SchedulingProfile, document, _FEDERATION)
        self._append(self.manifests.federation.profiles, profile, document)

    def _webhook(self, document: Document) -> None:
        webhook = _decoded(SchedulerPluginWebhookConfiguration, document, _FEDERATION)
        self._append(self.manifests.federation.webhooks, webhook, document)

    def _federated_object(self, document: Document) -> None:
        federated = _decoded(FederatedObject, document, _FEDERATION)
        self._append(self.manifests.federation.objects, FederatedDocument(document, federated), document)

    def _snapshot(self, document: Document) -> None:
        snapshot = FleetSnapshot.of(document)
        self.manifests.gaps += snapshot.gaps
        self.manifests.interpreters_complete = snapshot.interpreters_complete
        self.manifests.known |= snapshot.existing
        times = (self.manifests.read_at, snapshot.read_at)
        self.manifests.read_at = max(each for each in times if each is not None)

    def _template(self, document: Document) -> None:
        if document.kind in WAITED_FOR:
            namespace = document.identity[2]
            self.manifests.found.add(f"{document.kind} {'/'.join(filter(None, (namespace, document.name)))}")
        if (group_of(document.api_version), document.kind) == ("policy.karmada.io", taint_policy.KIND):
            found = _decoded(ClusterTaintPolicy, document, taint_policy.API_VERSION)
            self._append(self.manifests.taint_policies, found, document)
            effect = "a plan does not apply its taints; `simulate --down` applies them to a lost cluster"
            self.manifests.ignored.append(Ignored(document, effect))
            return
        reason = reason_not_propagated(document.api_version, document.kind, document.namespace)
        if reason is not None:
            self.manifests.ignored.append(Ignored(document, reason))
        else:
            self._append(self.manifests.templates, document, document)

    def _append(self, values: list[V], value: V, document: Document) -> None:
        """Append the value of a document, unless another document defines the same object."""
        namespace = document.identity[2]
        first = self._documents.setdefault(document.identity, document)
        if first is not document:
            shown_name = f"{namespace}/{document.name}" if namespace else document.name
            problem = f"{document.kind} {shown_name!r} is already defined in {first.place}"
            raise document.error(FieldError("metadata.name", problem))
        values.append(value)


def _decoded(kind: type[T], document: Document, api_version: str) -> T:
    if document.api_version != api_version:
        problem = f"{document.api_version!r} is not accepted; accepted is {api_version!r}"
        raise document.error(FieldError("apiVersion", problem))
    try:
        return convert(kind, document.raw)
    except FieldError as error:
        raise document.error(error) from None


def _reject(document: Document, errors: Iterable[FieldError]) -> None:
    """Raise the first error, if there is one."""
    for error in errors:
        raise document.error(error)
