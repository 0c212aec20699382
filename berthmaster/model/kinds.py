"""Known kinds: their scopes, their names, and which of them Karmada propagates.

The table holds what API discovery returns for Kubernetes, Karmada and KubeAdmiral, for commands that read files only.
The rules of propagation are those of Karmada's ``pkg/detector`` with the default flags of karmada-controller-manager.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from berthmaster.model.control_planes import CONTROL_PLANES, DOMAINS
from berthmaster.model.errors import FieldError, shown
from berthmaster.model.hints import closest, similar

_KINDS: Final[Mapping[str, str]] = {
    "": """
        *ComponentStatus *~Namespace/namespaces/ns *Node/nodes/no *~PersistentVolume/persistentvolumes/pv
        Binding ~ConfigMap/configmaps/cm ~Endpoints/endpoints/ep Event ~LimitRange/limitranges/limits
        ~PersistentVolumeClaim/persistentvolumeclaims/pvc Pod/pods/po PodTemplate
        ReplicationController/replicationcontrollers/rc ~ResourceQuota/resourcequotas/quota ~Secret/secrets
        ~Service/services/svc ~ServiceAccount/serviceaccounts/sa""",
    "apps": """
        ControllerRevision/controllerrevisions DaemonSet/daemonsets/ds Deployment/deployments/deploy
        ReplicaSet/replicasets/rs StatefulSet/statefulsets/sts""",
    "batch": "CronJob/cronjobs/cj Job/jobs",
    "autoscaling": "HorizontalPodAutoscaler/horizontalpodautoscalers/hpa",
    "networking.k8s.io": """
        *IPAddress *~IngressClass/ingressclasses *ServiceCIDR Ingress/ingresses/ing
        ~NetworkPolicy/networkpolicies/netpol""",
    "policy": "*PodSecurityPolicy ~PodDisruptionBudget/poddisruptionbudgets/pdb",
    "rbac.authorization.k8s.io": """
        *~ClusterRole/clusterroles *~ClusterRoleBinding/clusterrolebindings ~Role/roles
        ~RoleBinding/rolebindings""",
    "scheduling.k8s.io": "*~PriorityClass/priorityclasses/pc",
    "storage.k8s.io": """
        *CSIDriver *CSINode *~StorageClass/storageclasses/sc *VolumeAttachment *VolumeAttributesClass
        CSIStorageCapacity""",
    "apiextensions.k8s.io": "*~CustomResourceDefinition/customresourcedefinitions/crd/crds",
    "admissionregistration.k8s.io": """
        *MutatingAdmissionPolicy *MutatingAdmissionPolicyBinding *~MutatingWebhookConfiguration
        *ValidatingAdmissionPolicy *ValidatingAdmissionPolicyBinding *~ValidatingWebhookConfiguration""",
    "apiregistration.k8s.io": "*APIService",
    "authentication.k8s.io": "*SelfSubjectReview *TokenReview",
    "authorization.k8s.io": """
        *SelfSubjectAccessReview *SelfSubjectRulesReview *SubjectAccessReview LocalSubjectAccessReview""",
    "certificates.k8s.io": "*CertificateSigningRequest *ClusterTrustBundle PodCertificateRequest",
    "flowcontrol.apiserver.k8s.io": "*FlowSchema *PriorityLevelConfiguration",
    "internal.apiserver.k8s.io": "*StorageVersion",
    "node.k8s.io": "*RuntimeClass",
    "resource.k8s.io": "*DeviceClass *DeviceTaintRule *ResourceSlice ResourceClaim ResourceClaimTemplate",
    "storagemigration.k8s.io": "*StorageVersionMigration",
    "coordination.k8s.io": "Lease LeaseCandidate",
    "discovery.k8s.io": "EndpointSlice",
    "events.k8s.io": "Event",
    **{group: kinds for plane in CONTROL_PLANES for group, kinds in plane.kinds.items()},
}
"""The kinds of each group. ``*`` marks a cluster-scoped kind. ``~`` marks a kind of which decisions read only the
metadata: it has no replicas, and nothing that it depends on is propagated with it. The plural and the short names that
people write follow."""
_PEER_SUFFIXES: Final = tuple(f".{each}" for each in DOMAINS)
_VERSIONS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("autoscaling", "HorizontalPodAutoscaler"): ("v2", "v1"),
    ("work.karmada.io", "ClusterResourceBinding"): ("v1alpha2", "v1alpha1"),
    ("work.karmada.io", "ResourceBinding"): ("v1alpha2", "v1alpha1"),
}
_ONLY_VERSION: Final = ("v1alpha1",)
"""All other kinds of control planes have this version."""
_SIMILAR: Final = 0.8
_MISSED_LETTERS: Final = 2
_SKIPPED_GROUPS: Final = frozenset(
    f"{name}.karmada.io"
    for name in ("cluster", "policy", "work", "config", "networking", "autoscaling", "remedy", "apps")
) | {"events.k8s.io"}
_SKIPPED_KINDS: Final = frozenset({("v1", "Event")})
_SKIPPED_GROUP_VERSIONS: Final = frozenset({"coordination.k8s.io/v1"})
_RESERVED_NAMESPACES: Final = frozenset({"karmada-system", "karmada-cluster"})
_RESERVED_PREFIX: Final = "karmada-es-"
# The flag's pattern is not anchored: it matches anywhere in a name.
_SKIPPED_NAMESPACES: Final = re.compile(r"kube-.*")


class Scope(Enum):
    NAMESPACED = "Namespaced"
    CLUSTER = "Cluster"


_PARTS: Final = [
    (group, each, each.strip("*~").split("/")) for group, kinds in _KINDS.items() for each in kinds.split()
]
_SCOPES: Final = {
    (group, parts[0]): Scope.CLUSTER if each[0] == "*" else Scope.NAMESPACED for group, each, parts in _PARTS
}


@lru_cache(maxsize=1024)
def group_of(api_version: str) -> str:
    """Return the API group of an ``apiVersion``; empty for the core group."""
    group, slash, _ = api_version.partition("/")
    return group if slash else ""


def scope_of(api_version: str, kind: str) -> Scope | None:
    """Return the scope of a Kubernetes, Karmada or KubeAdmiral kind in any version; None for other kinds."""
    return scope_of_group(group_of(api_version), kind)


def scope_of_group(group: str, kind: str) -> Scope | None:
    """Return the scope of a kind by its API group, as ``scope_of``."""
    return _SCOPES.get((group, kind))


def is_namespaced(api_version: str, kind: str) -> bool:
    """Return whether a kind is namespaced. Unknown kinds count as namespaced, as most custom resources are."""
    return scope_of(api_version, kind) is not Scope.CLUSTER


def unknown_type(api_version: str, kind: str) -> FieldError | None:
    """Return why no API server of Karmada serves a type; None if one does, or if another API may define the type.

    The groups of Karmada, KubeAdmiral and Kubernetes have only the kinds of the table. Other APIs can have any kind in
    a group of their own. Such a group is unknown only if it resembles one of the table that has the kind.
    A group without a dot belongs to Kubernetes, because a CustomResourceDefinition cannot have one.

    Source: the CustomResourceDefinitions of Karmada 1.19 and of KubeAdmiral, Karmada's aggregated APIs, and the APIs of
    Kubernetes 1.27 and newer.
    """
    group, version = group_of(api_version), api_version.rpartition("/")[2]
    if api_version.count("/") > 1:
        return FieldError("apiVersion", f"{shown(api_version)} is not accepted", "accepted is GROUP/VERSION")
    if group.endswith(_PEER_SUFFIXES) or f".{group}" in _PEER_SUFFIXES:
        return _unknown_to_peers(group, version, kind)
    homes = _homes(kind)
    if "/" not in api_version and api_version != "v1":
        close = _similar(api_version, {each for each, _ in _SCOPES if each}, kind)
        if not close and not homes:
            return None
        accepted = _accepted(close or homes)
        return FieldError("apiVersion", f"{shown(api_version)} is not accepted", f"accepted is {accepted}")
    if group not in _GROUPS_OF_KUBERNETES:
        close = _similar(group, {each for each, _ in homes}, kind)
        if not close and ("." in group or not homes):
            return None
        hint = f"did you mean {_accepted(close[:1])}?" if close else f"accepted is {_accepted(homes)}"
        return FieldError("apiVersion", f"unknown API group {shown(group)}", hint)
    if (group, kind) not in _SCOPES:
        return _unknown_to_kubernetes(group, kind, homes)
    versions = _versions(group, kind)
    if versions and version not in versions:
        accepted = ", ".join(f"{group}/{each}" if group else each for each in versions)
        return FieldError("apiVersion", f"{kind} has no version {shown(version)}", f"accepted is {accepted}")
    return None


def _unknown_to_peers(group: str, version: str, kind: str) -> FieldError | None:
    kinds = {each for known, each in _SCOPES if known == group}
    if not kinds:
        groups = sorted({known for known, _ in _SCOPES if known.endswith(_PEER_SUFFIXES)})
        with_kind = [known for known, _ in _homes(kind) if known.endswith(_PEER_SUFFIXES)]
        hint = _hint(group, with_kind if closest(group, with_kind) else groups)
        return FieldError("apiVersion", f"unknown API group {shown(group)}", hint)
    if kind not in kinds:
        return FieldError("kind", f"{group} has no kind {shown(kind)}", _hint(kind, sorted(kinds)))
    versions = _VERSIONS.get((group, kind), _ONLY_VERSION)
    if version not in versions:
        accepted = ", ".join(f"{group}/{each}" for each in versions)
        return FieldError("apiVersion", f"{kind} has no version {shown(version)}", f"accepted is {accepted}")
    return None


def _unknown_to_kubernetes(group: str, kind: str, homes: Sequence[tuple[str, str]]) -> FieldError | None:
    """Return why a group of Kubernetes has no kind. A newer Kubernetes can have kinds that the table does not have."""
    own = f"{group} has" if group else "the core group has"
    if homes:
        return FieldError("apiVersion", f"{own} no kind {shown(kind)}", f"accepted is {_accepted(homes)}")
    close = _misspelled_kind(group, kind)
    return FieldError("kind", f"{own} no kind {shown(kind)}", f"did you mean {close}?") if close else None


def _misspelled_kind(group: str, kind: str) -> str:
    """Return the kind of a group that a text probably means; empty without one."""
    kinds = [each for known, each in _SCOPES if known == group]
    wrong_case = next((each for each in kinds if each.lower() == kind.lower()), "")
    close = closest(kind, kinds, _SIMILAR)
    return wrong_case or (close if close is not None and abs(len(close) - len(kind)) <= _MISSED_LETTERS else "")


def _homes(kind: str) -> list[tuple[str, str]]:
    """Return the group and the first version of each known type of a kind."""
    return [(group, (_versions(group, kind) or ("v1",))[0]) for group, each in _SCOPES if each == kind]


def _versions(group: str, kind: str) -> tuple[str, ...]:
    """Return all versions of a known kind; none if they differ from one Kubernetes to another."""
    if group.endswith(_PEER_SUFFIXES):
        return _VERSIONS.get((group, kind), _ONLY_VERSION)
    return _VERSIONS.get((group, kind), ("v1",) if (group, kind) in _STABLE else ())


def _similar(text: str, groups: Iterable[str], kind: str) -> list[tuple[str, str]]:
    """Return the known types of a kind in the groups that resemble a text."""
    close = similar(text, sorted(each for each in groups if each), 3, _SIMILAR)
    return [home for each in close for home in _homes(kind) if home[0] == each]


def _accepted(homes: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{group}/{version}" if group else version for group, version in homes)


def _hint(name: str, known: Sequence[str]) -> str:
    close = closest(name, known)
    return f"did you mean {close}?" if close else f"accepted are {', '.join(known)}"


def reason_not_propagated(api_version: str, kind: str, namespace: str = "") -> str | None:
    """Return why Karmada never propagates a resource; None if a policy may claim it."""
    group = group_of(api_version)
    if group in _SKIPPED_GROUPS:
        return f"the API group {group} is not propagated"
    if (api_version, kind) in _SKIPPED_KINDS or api_version in _SKIPPED_GROUP_VERSIONS:
        return f"{kind} of {api_version} is not propagated"
    if namespace in _RESERVED_NAMESPACES or namespace.startswith(_RESERVED_PREFIX):
        return f"the namespace {namespace} is reserved"
    if _SKIPPED_NAMESPACES.search(namespace):
        return f"the namespace {namespace} is not propagated"
    return None


_VERSION: Final = re.compile(r"v\d+(?:(?:alpha|beta)\d+)?")


class KindNames(NamedTuple):
    group: str
    kind: str
    plural: str
    short_names: tuple[str, ...] = ()

    def matches(self, text: str) -> bool:
        """Return whether a text means this kind: ``NAME``, ``NAME.GROUP`` or ``NAME.VERSION.GROUP``, in any case."""
        name, dot, group = text.lower().partition(".")
        if name not in {self.kind.lower(), self.plural, *self.short_names}:
            return False
        version, _, rest = group.partition(".")
        return not dot or group == self.group or (rest == self.group and _VERSION.fullmatch(version) is not None)


def guessed_names(group: str, kind: str) -> KindNames:
    """Return the names of an unknown kind, with a guessed plural (apimachinery ``UnsafeGuessKindToResource``)."""
    singular = kind.lower()
    if singular.endswith("s"):
        return KindNames(group, kind, f"{singular}es")
    if singular.endswith("y"):
        return KindNames(group, kind, f"{singular.removesuffix('y')}ies")
    return KindNames(group, kind, f"{singular}s")


def resolve(text: str, known: Iterable[KindNames]) -> KindNames | None:
    return next((names for names in known if names.matches(text)), None)


_GROUPS_OF_KUBERNETES: Final = frozenset(group for group, *_ in _PARTS if not group.endswith(_PEER_SUFFIXES))
_STABLE: Final = frozenset((group, kind) for group, _, (kind, *names) in _PARTS if names)
"""The kinds of Kubernetes that have had one version only since Kubernetes 1.27, unless ``_VERSIONS`` has more."""
BUILT_IN_NAMES: Final = tuple(
    KindNames(group, kind, names[0], tuple(names[1:])) for group, _, (kind, *names) in _PARTS if names
)
"""The kinds that are known without discovery. Kinds of Kubernetes come first."""
_METADATA_SUFFICES: Final = frozenset((group, kind) for group, each, (kind, *_) in _PARTS if "~" in each)


def metadata_suffices(api_version: str, kind: str) -> bool:
    """Return whether a decision depends on nothing but the metadata of the objects of a kind."""
    return (group_of(api_version), kind) in _METADATA_SUFFICES
