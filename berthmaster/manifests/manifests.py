"""The objects of a set of files, decoded and with their defaults."""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from berthmaster.manifests.document import Document, Identity
from berthmaster.manifests.kubeadmiral import (
    FEDERATION_GROUP,
    KARMADA_ONLY,
    Append,
    FederationManifests,
    FederationReader,
)
from berthmaster.manifests.snapshot import is_snapshot
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.customization import ResourceInterpreterCustomization
from berthmaster.model.errors import InputError, ManifestError
from berthmaster.model.gaps import Gap, GapKind
from berthmaster.model.policy import Policy
from berthmaster.model.prerequisites import Existence
from berthmaster.model.rebalancer import WorkloadRebalancer
from berthmaster.model.taint_policy import ClusterTaintPolicy

_BINDINGS: Final = "work.karmada.io"


class Ignored(NamedTuple):
    """A document that is not used, and the reason."""

    document: Document
    reason: str


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
    def mixes_control_planes(self) -> bool:
        """Whether there are clusters of both."""
        return bool(self.clusters and self.federation.clusters)

    def require_karmada(self) -> None:
        """Raise ``InputError`` if these are the clusters of KubeAdmiral."""
        if self.federation.clusters:
            raise InputError(KARMADA_ONLY)

    def group_readers(self, append: Append) -> Mapping[str, Callable[[Document], None]]:
        """Return what reads the objects of an API group, for the groups that have a room of their own."""

        def ignore(document: Document, reason: str) -> None:
            self.ignored.append(Ignored(document, reason))

        return {FEDERATION_GROUP: FederationReader(self.federation, append, ignore).read}

    @property
    def namespaces(self) -> set[str]:
        """The namespaces of all objects. Cluster-scoped ones have an empty name."""
        known = {each.namespace for each in self.templates} | {each.metadata.namespace for each in self.bindings}
        known |= {each.reference.namespace for each in self.policies}
        known |= {each.document.namespace for each in self.ignored}
        known |= {each.document.namespace for each in self.federation.objects}
        return known | {each.metadata.namespace for each in self.federation.policies}

    @property
    def stored_policies(self) -> list[Policy]:
        """The policies before files change them."""
        edited = {after.reference for _, after in self.policy_edits}
        stored = [before for before, _ in self.policy_edits if before is not None]
        return [*(each for each in self.policies if each.reference not in edited), *stored]

    @property
    def existing(self) -> Existence:
        """Whether the objects exist that policies wait for. Files are all that there is, if no server was read."""
        return Existence({**self.known, **dict.fromkeys(self.found, True)}, complete=self.read_at is None)

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
