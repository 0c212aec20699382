"""Loading of manifests: decoding, defaults, and errors that name file, document and field.

Objects of files replace the objects of a dump or of an API server, as ``kubectl apply`` would.
"""

import gc
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar

from berthmaster.manifests.document import Document, Identity
from berthmaster.manifests.files import scan_documents
from berthmaster.manifests.foreign import PLACEMENT_TEST, TEST_GROUP, PassedOver
from berthmaster.manifests.heads import head_errors
from berthmaster.manifests.limits import DEFAULT_LIMITS, ManifestLimits
from berthmaster.manifests.snapshot import SNAPSHOT_GROUP, FleetSnapshot, is_snapshot
from berthmaster.model import kubeadmiral
from berthmaster.model.binding import Binding
from berthmaster.model.claims import WAITED_FOR, Existing
from berthmaster.model.cluster import Cluster, Node, cluster_of_node
from berthmaster.model.decode import convert, unknown_fields
from berthmaster.model.errors import FieldError, InputError, ManifestError
from berthmaster.model.federated_object import FederatedObject
from berthmaster.model.gaps import Gap, GapKind
from berthmaster.model.interpretation import ResourceInterpreterCustomization
from berthmaster.model.kinds import group_of, reason_not_propagated
from berthmaster.model.meta import Value, negative_amounts, with_spec
from berthmaster.model.policy import (
    DEFAULT_NAMESPACE,
    TAINT_POLICY,
    TAINT_POLICY_API,
    ClusterTaintPolicy,
    Policy,
    defaulted,
)
from berthmaster.model.rebalancer import WorkloadRebalancer
from berthmaster.model.unsupported import checked_placement
from berthmaster.model.validation import binding_errors, cluster_errors, policy_errors

_BINDINGS: Final = "work.karmada.io"


class Ignored(NamedTuple):
    """A document that is not used, and the reason."""

    document: Document
    reason: str


class FederatedDocument(NamedTuple):
    """A FederatedObject or ClusterFederatedObject, and the document that it was read from."""

    document: Document
    federated: FederatedObject


@dataclass(slots=True)
class FederationManifests:
    """The KubeAdmiral objects of a set of files.

    Attributes:
        policies: the policies of both kinds, with the defaults of their CRDs.
    """

    clusters: list[Cluster] = field(default_factory=list)
    policies: list[kubeadmiral.KubeAdmiralPolicy] = field(default_factory=list)
    profiles: list[kubeadmiral.SchedulingProfile] = field(default_factory=list)
    webhooks: list[kubeadmiral.SchedulerPluginWebhookConfiguration] = field(default_factory=list)
    objects: list[FederatedDocument] = field(default_factory=list)


@dataclass(slots=True)
class Manifests:
    """The objects of a set of files, in the order of reading.

    Attributes:
        clusters: the Karmada clusters, or the nodes that represent clusters; names are unique.
        policies: the Karmada policies of both kinds, with their defaults (``policy.defaulted``).
        policy_documents: the same policies as they are written, in the same order.
        policy_edits: the policies that files would create or replace, each as it is stored and as it would be.
        templates: all other resources. A namespaced resource has its namespace in ``raw``.
        federation: the KubeAdmiral objects. They exclude Karmada clusters.
        applied: the identities of the objects that would be applied: files beside stored objects.
        interpreters_complete: whether these are all interpreters of the control plane. A kind that none of them
            interprets then has no replicas.
        found: the objects of files that policies can wait for, by kind and name.
        known: whether objects exist that policies of a control plane wait for, as far as they were read.
        read_at: when the objects were read from an API server; None for files that no server was read for.
    """

    clusters: list[Cluster] = field(default_factory=list)
    policies: list[Policy] = field(default_factory=list)
    policy_documents: list[Document] = field(default_factory=list)
    policy_edits: list[tuple[Policy | None, Policy]] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    templates: list[Document] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)
    federation: FederationManifests = field(default_factory=FederationManifests)
    applied: set[Identity] = field(default_factory=set)
    rebalancers: list[WorkloadRebalancer] = field(default_factory=list)
    taint_policies: list[ClusterTaintPolicy] = field(default_factory=list)
    customizations: list[ResourceInterpreterCustomization] = field(default_factory=list)
    interpreters_complete: bool = False
    warnings: list[str] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    found: set[str] = field(default_factory=set)
    known: dict[str, bool] = field(default_factory=dict)
    read_at: datetime | None = None
    dumps: Container[str] = ()

    @property
    def every_cluster(self) -> list[Cluster]:
        """The clusters of Karmada and of KubeAdmiral."""
        return [*self.clusters, *self.federation.clusters]

    @property
    def stored_policies(self) -> list[Policy]:
        """The policies before files change them."""
        edited = {after.reference for _, after in self.policy_edits}
        stored = [before for before, _ in self.policy_edits if before is not None]
        return [*(each for each in self.policies if each.reference not in edited), *stored]

    @property
    def existing(self) -> Existing:
        """Whether the objects exist that policies wait for. Files are all that there is, if no server was read."""
        return Existing({**self.known, **dict.fromkeys(self.found, True)}, complete=self.read_at is None)

    @property
    def knows_bindings(self) -> bool:
        """Whether the bindings of a control plane are known, even if it has none."""
        unread = any(each.facts.get("group") == _BINDINGS for each in self.gaps)
        return bool(self.bindings) or (self.read_at is not None and not unread)

    def leave_out(self, document: Document, error: ManifestError) -> None:
        """Record that an invalid stored object is left out. Raise the error if a user can correct it in a file."""
        is_stored = document.is_live or document.source in self.dumps
        if document.applied or is_snapshot(document) or not is_stored:
            raise error
        self.gaps.append(Gap(GapKind.INVALID_OBJECT, (document.resource,), {"error": str(error)}))


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


class GivenDocuments(NamedTuple):
    """The objects of files and folders, and what was passed over."""

    documents: list[Document]
    passed_over: list[PassedOver]


def given_documents(
    paths: Sequence[str | Path], *, stdin: BinaryIO | None = None, limits: ManifestLimits = DEFAULT_LIMITS
) -> GivenDocuments:
    """Read files and folders: see ``scan_documents``."""
    with _collector_paused():
        found = list(scan_documents(paths, stdin=stdin, limits=limits))
    return GivenDocuments(
        [each for each in found if isinstance(each, Document)], [each for each in found if isinstance(each, PassedOver)]
    )


def load_manifests(
    paths: Iterable[str | Path],
    *,
    stdin: BinaryIO | None = None,
    limits: ManifestLimits = DEFAULT_LIMITS,
    lenient: bool = False,
    hold_unknown: bool = True,
    namespace: str = DEFAULT_NAMESPACE,
) -> Manifests:
    """Load all manifests of the paths: see ``scan_documents`` and ``manifests_of``."""
    given = [str(path) for path in paths]
    with _collector_paused():
        documents = given_documents(given, stdin=stdin, limits=limits).documents
        origin = ", ".join(given)
        return manifests_of(documents, origin, lenient=lenient, hold_unknown=hold_unknown, namespace=namespace)


def manifests_of(
    documents: Iterable[Document],
    origin: str,
    *,
    lenient: bool = False,
    hold_unknown: bool = True,
    namespace: str = DEFAULT_NAMESPACE,
) -> Manifests:
    """Return the manifests of documents, wherever they were read: files, an API server, a dump.

    Without clusters, nodes count as clusters: those of a control plane whose nodes represent clusters. Objects of files
    replace those of a dump (``overlay``). An object that a control plane stores is left out if it is invalid, and
    reported as a gap: the user cannot correct it in a file.

    Args:
        lenient: whether a misspelled field of a policy is a warning. A field without a similar known one is a warning
            in any case, and so is one of a stored policy: both come from another version of Karmada.
        hold_unknown: whether such fields make a placement an ``UnsupportedPlacement``. Otherwise they are ignored.
        namespace: the namespace of namespaced objects that name none.

    Raises:
        ManifestError: at the first invalid or duplicate document of a file.
        InputError: there is no cluster and no node, or there are clusters of both control planes.
    """
    with _collector_paused():
        given = [each.with_namespace(namespace) for each in documents]
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
    """Return the manifests of documents that need not contain a cluster, such as those that a change applies."""
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
            ("apps.karmada.io", "WorkloadRebalancer"): self._plain(
                WorkloadRebalancer, _REBALANCER, self.manifests.rebalancers
            ),
            ("config.karmada.io", "ResourceInterpreterCustomization"): self._plain(
                ResourceInterpreterCustomization, _CUSTOMIZATION, self.manifests.customizations
            ),
            (_KUBEADMIRAL, "FederatedCluster"): self._federated_cluster,
            (_KUBEADMIRAL, "PropagationPolicy"): self._federated_policy,
            (_KUBEADMIRAL, "ClusterPropagationPolicy"): self._federated_policy,
            (_KUBEADMIRAL, "SchedulingProfile"): self._profile,
            (_KUBEADMIRAL, "SchedulerPluginWebhookConfiguration"): self._plain(
                kubeadmiral.SchedulerPluginWebhookConfiguration, _FEDERATION, self.manifests.federation.webhooks
            ),
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
        self._check_head(document)
        if document.applied:
            self.manifests.applied.add(document.identity)
        group = group_of(document.api_version)
        read = self._readers.get((group, document.kind))
        if read is not None:
            read(document)
        elif group == _KUBEADMIRAL:
            self.manifests.ignored.append(Ignored(document, "an object of KubeAdmiral itself, not a workload"))
        elif (group, document.kind) == (TEST_GROUP, PLACEMENT_TEST):
            self.manifests.ignored.append(Ignored(document, "`berthmaster test` runs it"))
        else:
            self._template(document)

    def _check_head(self, document: Document) -> None:
        """Reject a wrong head. What an API server has stored can come from a newer version of an API."""
        if document.stored or document.is_live:
            return
        for error in head_errors(document.raw):
            if not self._lenient:
                raise document.error(error)
            self.manifests.warnings.append(f"{document.error(error)}; the object is read as it is")

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
        """Reject misspelled fields of a policy, warn about other unknown ones, and mark its placement if they count."""
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
        return with_spec(policy, placement=placement)

    def _binding(self, document: Document) -> None:
        binding = _decoded(Binding, document, _BINDING)
        placement = binding.spec.placement
        if self._hold_unknown and placement is not None:
            checked = checked_placement(placement, document.raw["spec"]["placement"])
            if checked is not placement:
                binding = with_spec(binding, placement=checked)
        _reject(document, binding_errors(binding))
        self._append(self.manifests.bindings, binding, document)

    def _plain(self, kind: type[T], api_version: str, values: list[T]) -> Callable[[Document], None]:
        return lambda document: self._append(values, _decoded(kind, document, api_version), document)

    def _federated_cluster(self, document: Document) -> None:
        federated = _decoded(kubeadmiral.FederatedCluster, document, _FEDERATION)
        _reject(document, negative_amounts("status.resources.allocatable", federated.status.resources.allocatable))
        self._append(self.manifests.federation.clusters, kubeadmiral.as_cluster(federated), document)

    def _federated_policy(self, document: Document) -> None:
        _reject(document, unknown_fields(kubeadmiral.KubeAdmiralPolicy, document.raw))
        spec = document.raw.get("spec")
        raw = {**document.raw, "spec": kubeadmiral.defaulted_spec(spec)} if isinstance(spec, dict) else document.raw
        policy = _decoded(kubeadmiral.KubeAdmiralPolicy, replace(document, raw=raw), _FEDERATION)
        self._append(self.manifests.federation.policies, policy, document)

    def _profile(self, document: Document) -> None:
        _reject(document, unknown_fields(kubeadmiral.SchedulingProfile, document.raw))
        profile = _decoded(kubeadmiral.SchedulingProfile, document, _FEDERATION)
        self._append(self.manifests.federation.profiles, profile, document)

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
        if (group_of(document.api_version), document.kind) == ("policy.karmada.io", TAINT_POLICY):
            found = _decoded(ClusterTaintPolicy, document, TAINT_POLICY_API)
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
    for error in errors:
        raise document.error(error)


_CONTROL_PLANES: Final = ("karmada.io", "kubeadmiral.io")
_POLICIES: Final = "policy.karmada.io"
_SCHEDULER: Final = "schedulerName"
_SERVER_FIELDS: Final = ("uid", "creationTimestamp", "generation", "resourceVersion")


def overlaid(base: Iterable[Document], top: Sequence[Document]) -> list[Document]:
    """Return the documents of the base in order, each replaced by the object of the top that would be applied to it.

    That keeps what an apply never changes: the status if it has none, the UID, and the labels and annotations by which
    control planes record claims. New objects follow, and all policies of the top, in the order of their application.
    """
    given: dict[Identity, Document] = {}
    for document in top:
        given.setdefault(document.identity, document)
    result: list[Document] = []
    stored: dict[int, Document] = {}
    for document in base:
        over = given.get(document.identity)
        if over is None:
            result.append(document)
            continue
        stored[id(over)] = document
        if not _is_policy(over):
            result.append(_over(document, over))
    # A second object of the same identity stays, so that it is reported as a duplicate.
    for over in top:
        before = stored.get(id(over))
        if before is None:
            result.append(replace(over, applied=True))
        elif _is_policy(over):
            result.append(_over(before, over))
    return result


def over_dumps(documents: Sequence[Document]) -> Sequence[Document]:
    dumps = dump_sources(documents)
    if not dumps:
        return documents
    base = [document for document in documents if document.source in dumps]
    top = [document for document in documents if document.source not in dumps]
    return overlaid(base, top)


def dump_sources(documents: Iterable[Document]) -> frozenset[str]:
    return frozenset(each.source for each in documents if is_snapshot(each) and not each.is_live)


def _is_policy(document: Document) -> bool:
    return group_of(document.api_version) == _POLICIES


def _over(stored: Document, over: Document) -> Document:
    """Return a document over the stored one. A policy that names no scheduler keeps that of the stored one."""
    raw = over.raw
    given, before = raw.get("spec"), stored.raw.get("spec")
    if _is_policy(over) and isinstance(given, dict) and isinstance(before, dict) and not given.get(_SCHEDULER):
        kept = {_SCHEDULER: before[_SCHEDULER]} if before.get(_SCHEDULER) else {}
        raw = {**raw, "spec": {**given, **kept}}
    return replace(over, raw=_applied(stored.raw, raw), applied=True, replaced=stored.raw)


def _applied(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    before, after = stored["metadata"], given["metadata"]
    metadata = {**{key: before[key] for key in _SERVER_FIELDS if key in before}, **after}
    for part in ("labels", "annotations"):
        kept = {key: value for key, value in (before.get(part) or {}).items() if _is_of_control_plane(key)}
        if kept or after.get(part):
            metadata[part] = {**kept, **(after.get(part) or {})}
    status = {"status": stored["status"]} if "status" in stored else {}
    return {**status, **given, "metadata": metadata}


def _is_of_control_plane(key: str) -> bool:
    prefix = key.partition("/")[0]
    return any(prefix == each or prefix.endswith(f".{each}") for each in _CONTROL_PLANES)
