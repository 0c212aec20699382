"""The objects of KubeAdmiral among manifests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Protocol

from berthmaster.manifests.document import Document
from berthmaster.model.cluster import Cluster
from berthmaster.model.kubeadmiral.clusters import FederatedCluster, as_cluster
from berthmaster.model.kubeadmiral.objects import FederatedObject
from berthmaster.model.kubeadmiral.policies import KubeAdmiralPolicy, defaulted_spec
from berthmaster.model.kubeadmiral.profiles import SchedulerPluginWebhookConfiguration, SchedulingProfile
from berthmaster.model.quantity import negative_amounts
from berthmaster.model.unknown_fields import unknown_fields

FEDERATION_GROUP: Final = "core.kubeadmiral.io"
KARMADA_ONLY: Final = (
    "the input is a KubeAdmiral federation, and this is answered for Karmada only; "
    "`berthmaster simulate` and `berthmaster explain` answer for KubeAdmiral"
)
_API_VERSION: Final = f"{FEDERATION_GROUP}/v1alpha1"
_NO_WORKLOAD: Final = "an object of KubeAdmiral itself, not a workload"
"""Why the other kinds of the group are ignored."""


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
    policies: list[KubeAdmiralPolicy] = field(default_factory=list)
    profiles: list[SchedulingProfile] = field(default_factory=list)
    webhooks: list[SchedulerPluginWebhookConfiguration] = field(default_factory=list)
    objects: list[FederatedDocument] = field(default_factory=list)


class Append(Protocol):
    """Appends the value of a document, unless another document defines the same object."""

    def __call__(self, values: list[Any], value: Any, document: Document, /) -> None: ...  # noqa: ANN401 - of any kind


class FederationReader:
    """Reads the objects of KubeAdmiral into ``FederationManifests``. ``ignore`` gets an object and the reason."""

    def __init__(self, found: FederationManifests, append: Append, ignore: Callable[[Document, str], None]) -> None:
        self._found = found
        self._append = append
        self._ignore = ignore
        self._readers: Mapping[str, Callable[[Document], None]] = {
            "FederatedCluster": self._cluster,
            "PropagationPolicy": self._policy,
            "ClusterPropagationPolicy": self._policy,
            "SchedulingProfile": self._profile,
            "SchedulerPluginWebhookConfiguration": self._webhook,
            "FederatedObject": self._object,
            "ClusterFederatedObject": self._object,
        }

    def read(self, document: Document) -> None:
        """Read an object of the group. Raises ``ManifestError`` if it is invalid."""
        read = self._readers.get(document.kind)
        if read is None:
            self._ignore(document, _NO_WORKLOAD)
        else:
            read(document)

    def _cluster(self, document: Document) -> None:
        federated = document.decode(FederatedCluster, _API_VERSION)
        document.reject(negative_amounts("status.resources.allocatable", federated.status.resources.allocatable))
        self._append(self._found.clusters, as_cluster(federated), document)

    def _policy(self, document: Document) -> None:
        document.reject(unknown_fields(KubeAdmiralPolicy, document.raw))
        spec = document.raw.get("spec")
        raw = {**document.raw, "spec": defaulted_spec(spec)} if isinstance(spec, dict) else document.raw
        policy = replace(document, raw=raw).decode(KubeAdmiralPolicy, _API_VERSION)
        self._append(self._found.policies, policy, document)

    def _profile(self, document: Document) -> None:
        document.reject(unknown_fields(SchedulingProfile, document.raw))
        self._append(self._found.profiles, document.decode(SchedulingProfile, _API_VERSION), document)

    def _webhook(self, document: Document) -> None:
        webhook = document.decode(SchedulerPluginWebhookConfiguration, _API_VERSION)
        self._append(self._found.webhooks, webhook, document)

    def _object(self, document: Document) -> None:
        federated = document.decode(FederatedObject, _API_VERSION)
        self._append(self._found.objects, FederatedDocument(document, federated), document)
