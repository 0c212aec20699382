"""Loading of manifests: decoding, defaults, and errors that name file, document and field."""

import gc
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeVar

from berthmaster.manifests.document import Document, Identity, T
from berthmaster.manifests.files import scan_documents
from berthmaster.manifests.foreign import PLACEMENT_TEST, TEST_GROUP, PassedOver
from berthmaster.manifests.heads import head_errors
from berthmaster.manifests.limits import DEFAULT_LIMITS, ManifestLimits
from berthmaster.manifests.manifests import Ignored, Manifests
from berthmaster.manifests.overlay import dump_sources, over_dumps
from berthmaster.manifests.snapshot import SNAPSHOT_GROUP, FleetSnapshot
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.cluster_node import Node, cluster_of_node
from berthmaster.model.control_planes import CONTROL_PLANES
from berthmaster.model.customization import ResourceInterpreterCustomization
from berthmaster.model.errors import FieldError, InputError, ManifestError
from berthmaster.model.kinds import group_of
from berthmaster.model.meta import object_name, with_spec
from berthmaster.model.policy import Policy
from berthmaster.model.policy_defaults import DEFAULT_NAMESPACE, defaulted
from berthmaster.model.prerequisites import PREREQUISITE_KINDS
from berthmaster.model.rebalancer import WorkloadRebalancer
from berthmaster.model.skipped_resources import reason_not_propagated
from berthmaster.model.taint_policy import TAINT_POLICY, TAINT_POLICY_API, ClusterTaintPolicy
from berthmaster.model.unknown_fields import unknown_fields
from berthmaster.model.unsupported_placement import checked_placement
from berthmaster.model.validation import binding_errors, cluster_errors, policy_errors

V = TypeVar("V")

_CLUSTER: Final = "cluster.karmada.io/v1alpha1"
_POLICY: Final = "policy.karmada.io/v1alpha1"
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
    if not manifests.every_cluster:
        loader.use_nodes_as_clusters()
    if not manifests.every_cluster:
        kinds = " or ".join(f"{each.cluster.kind} ({each.cluster.api_version})" for each in CONTROL_PLANES)
        raise InputError(
            f"no cluster in {origin}: pass manifests of kind {kinds} as well, such as the output of `kubectl get "
            "clusters -o yaml`"
        )
    if manifests.mixes_control_planes:
        both = " and ".join(f"{each.cluster.kind}s" for each in CONTROL_PLANES)
        schedulers = " or by ".join(each.name for each in CONTROL_PLANES)
        raise InputError(
            f"both {both} in {origin}: a workload is scheduled by {schedulers}; pass the clusters of one of them"
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
            (SNAPSHOT_GROUP, FleetSnapshot.__name__): self._snapshot,
        }
        self._group_readers = self.manifests.group_readers(self._append)

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
        read = self._readers.get((group, document.kind)) or self._group_readers.get(group)
        if read is not None:
            read(document)
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
            cluster = cluster_of_node(document.decode(Node, document.api_version))
            document.reject(cluster_errors(cluster))
            self.manifests.clusters.append(cluster)

    def _cluster(self, document: Document) -> None:
        cluster = document.decode(Cluster, _CLUSTER)
        document.reject(cluster_errors(cluster))
        self._append(self.manifests.clusters, cluster, document)

    def _policy(self, document: Document) -> None:
        policy = defaulted(document.decode(Policy, _POLICY))
        policy = self._with_checked_fields(policy, document)
        document.reject(policy_errors(policy))
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
            return self._with_checked_fields(defaulted(stored.decode(Policy, _POLICY)), stored)
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
        binding = document.decode(Binding, _BINDING)
        placement = binding.spec.placement
        if self._hold_unknown and placement is not None:
            checked = checked_placement(placement, document.raw["spec"]["placement"])
            if checked is not placement:
                binding = with_spec(binding, placement=checked)
        document.reject(binding_errors(binding))
        self._append(self.manifests.bindings, binding, document)

    def _plain(self, kind: type[T], api_version: str, values: list[T]) -> Callable[[Document], None]:
        return lambda document: self._append(values, document.decode(kind, api_version), document)

    def _snapshot(self, document: Document) -> None:
        snapshot = FleetSnapshot.of(document)
        self.manifests.gaps += snapshot.gaps
        self.manifests.interpreters_complete = snapshot.interpreters_complete
        self.manifests.known |= snapshot.existing
        times = (self.manifests.read_at, snapshot.read_at)
        self.manifests.read_at = max(each for each in times if each is not None)

    def _template(self, document: Document) -> None:
        if document.kind in PREREQUISITE_KINDS:
            namespace = document.identity[2]
            self.manifests.found.add(f"{document.kind} {'/'.join(filter(None, (namespace, document.name)))}")
        if (group_of(document.api_version), document.kind) == ("policy.karmada.io", TAINT_POLICY):
            found = document.decode(ClusterTaintPolicy, TAINT_POLICY_API)
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
            problem = f"{document.kind} {object_name(namespace, document.name)!r} is already defined in {first.place}"
            raise document.error(FieldError("metadata.name", problem))
        values.append(value)
