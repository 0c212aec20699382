"""Reads what a simulation needs from a control plane: clusters, policies, bindings and their templates.

Which resource templates a simulation needs: those that bindings name and policies select.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeVar

from berthmaster.kube.served_types import ServedType, ServedTypes
from berthmaster.manifests.document import Document, ListRecord
from berthmaster.model.claims import PERMANENT_ID, claims
from berthmaster.model.decode import convert
from berthmaster.model.errors import ApiError, FieldError, InputError
from berthmaster.model.gaps import Gap, GapKind
from berthmaster.model.kinds import group_of, metadata_suffices, reason_not_propagated
from berthmaster.model.meta import Key
from berthmaster.model.policy import POLICY_KINDS, TAINT_POLICY, TAINT_POLICY_API, Policy, defaulted
from berthmaster.model.replicas import template_of
from berthmaster_cli.live.collections import CollectionReader, Listing


class TemplateKind(NamedTuple):
    """A kind whose templates are needed.

    Attributes:
        bound: whether a binding names an object of the kind, not only a policy.
    """

    api_version: str
    kind: str
    bound: bool

    @property
    def metadata_suffices(self) -> bool:
        """Whether the answer depends on nothing but the metadata of the objects."""
        return metadata_suffices(self.api_version, self.kind)


class TemplateSelection:
    """The templates that bindings name and policies select.

    Args:
        policies: the documents of the policies. Invalid ones are ignored here; the loader reports them.
    """

    def __init__(self, bindings: Iterable[Document], policies: Iterable[Document]) -> None:
        self._policies = list(_decoded(policies))
        self._bound: dict[tuple[str, str], set[tuple[str, str]]] = {}
        for document in bindings:
            resource = _resource(document)
            kind = (str(resource.get("apiVersion")), str(resource.get("kind")))
            key = (str(resource.get("namespace") or ""), str(resource.get("name")))
            self._bound.setdefault(kind, set()).add(key)

    def kinds(self) -> Sequence[TemplateKind]:
        """Return the kinds in a fixed order, without those that Karmada never propagates."""
        selected = {
            (selector.api_version, selector.kind)
            for policy in self._policies
            for selector in policy.spec.resource_selectors
        }
        return [
            TemplateKind(api_version, kind, (api_version, kind) in self._bound)
            for api_version, kind in sorted(selected | self._bound.keys())
            if reason_not_propagated(api_version, kind) is None
        ]

    def needs(self, template: Document) -> bool:
        """Return whether a binding names a template, a policy selects it, or its labels record a claim."""
        if (template.namespace, template.name) in self._bound.get((template.api_version, template.kind), ()):
            return True
        if reason_not_propagated(template.api_version, template.kind, template.namespace) is not None:
            return False
        labels = template.raw["metadata"].get("labels") or {}
        if any(labels.get(key) for key in PERMANENT_ID.values()):
            return True
        try:
            return bool(claims(template_of(template.raw), self._policies))
        except FieldError:
            return True  # the loader reports it


def _decoded(policies: Iterable[Document]) -> Iterable[Policy]:
    for document in policies:
        try:
            yield defaulted(convert(Policy, document.raw))
        except FieldError:
            continue


def _resource(binding: Document) -> dict[str, Any]:
    resource = (binding.raw.get("spec") or {}).get("resource")
    return resource if isinstance(resource, dict) else {}


T = TypeVar("T")
V = TypeVar("V")
INTERPRETER_WEBHOOKS: Final = "ResourceInterpreterWebhookConfiguration"
KARMADA: Final = (
    ("cluster.karmada.io/v1alpha1", "Cluster"),
    ("policy.karmada.io/v1alpha1", "PropagationPolicy"),
    ("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy"),
    (TAINT_POLICY_API, TAINT_POLICY),
    ("work.karmada.io/v1alpha2", "ResourceBinding"),
    ("work.karmada.io/v1alpha2", "ClusterResourceBinding"),
    ("config.karmada.io/v1alpha1", "ResourceInterpreterCustomization"),
    ("config.karmada.io/v1alpha1", INTERPRETER_WEBHOOKS),
)
KUBEADMIRAL: Final = tuple(
    ("core.kubeadmiral.io/v1alpha1", kind)
    for kind in (
        "FederatedCluster", "PropagationPolicy", "ClusterPropagationPolicy", "SchedulingProfile", "FederatedObject",
        "ClusterFederatedObject",
    )
)  # fmt: skip
# Cluster-scoped objects that stand for cluster-scoped resources: one namespace has none of them.
_OF_CLUSTER_SCOPED: Final = frozenset({"ClusterResourceBinding", "ClusterFederatedObject"})
_REQUIRED: Final = (KARMADA[0][1], KUBEADMIRAL[0][1])
"""The kinds without which there is no answer."""
POLICY_GROUP: Final = "policy.karmada.io"
BINDING_GROUP: Final = "work.karmada.io"
_CONCURRENT: Final = 4
_MAX_SINGLE_GETS: Final = 50
_HOLDER: Final = "a process"


@dataclass(slots=True)
class FleetRead:
    """What was read."""

    documents: list[Document] = field(default_factory=list)
    records: list[ListRecord] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    existing: dict[str, bool] = field(default_factory=dict)

    def take(self, result: Listing | Gap | None) -> None:
        """Add the objects of a list, or the gap."""
        if isinstance(result, Gap):
            self.gaps.append(result)
        elif result is not None:
            self.documents += result.documents
            self.records.append(result.record)

    def of_group(self, group: str) -> list[Document]:
        return [document for document in self.documents if group_of(document.api_version) == group]

    def policies(self, over: Sequence[Document]) -> list[Document]:
        """Return the policies that were read, and those of objects that will be laid over them."""
        known = (*self.documents, *over)
        return [each for each in known if each.kind in POLICY_KINDS and group_of(each.api_version) == POLICY_GROUP]


def joined(first: FleetRead, second: FleetRead) -> FleetRead:
    """Return what was read by two reads; an object of both counts as the first read has it."""
    known = {each.identity for each in first.documents}
    more = [each for each in second.documents if each.identity not in known]
    gaps = [*first.gaps, *(each for each in second.gaps if each not in first.gaps)]
    return FleetRead([*first.documents, *more], [*first.records, *second.records], gaps)


def control_plane_types(types: ServedTypes, server: str) -> list[ServedType]:
    """Return the types of Karmada and KubeAdmiral that an API server serves.

    Raises:
        InputError: it is no control plane of them.
    """
    for api_version, _ in (KARMADA[0], KUBEADMIRAL[0]):
        if api_version in types.unavailable:
            raise InputError(
                f"{server}: {api_version} is registered, but the API server behind it does not respond; check "
                "karmada-aggregated-apiserver"
            )
    found = [each for kind in (*KARMADA, *KUBEADMIRAL) if (each := types.find(*kind)) is not None]
    if not any(each.kind in _REQUIRED for each in found):
        raise InputError(
            f"{server}: this API server serves neither {KARMADA[0][0]} (Karmada) nor {KUBEADMIRAL[0][0]} "
            "(KubeAdmiral); name the context of the control plane with --context, not that of its host, or name "
            "manifests with -f"
        )
    return found


def read_fleet(
    reader: CollectionReader, types: ServedTypes, namespace: str = "", over: Sequence[Document] = ()
) -> FleetRead:
    """Read everything that a simulation needs.

    Args:
        namespace: the only namespace to read; empty for all namespaces and cluster-scoped resources.
        over: objects that will be laid over the stored ones. Their policies select templates, too.

    Raises:
        InputError: it is no control plane, its clusters may not be read, or it exceeds a limit.
    """
    read = FleetRead()
    types_of_planes = read_clusters(reader, types, read)
    wanted = [each for each in types_of_planes if not (namespace and each.kind in _OF_CLUSTER_SCOPED)]
    for result in concurrently(lambda each: list_allowed(reader, each, namespace), wanted):
        read.take(result)
    selection = TemplateSelection(read.of_group(BINDING_GROUP), read.policies(over))
    for found in concurrently(lambda each: _templates(reader, types, namespace, selection, each), selection.kinds()):
        read.take(found)
    return read


def read_clusters(reader: CollectionReader, types: ServedTypes, read: FleetRead) -> list[ServedType]:
    """Read the clusters, and return the other types of the control planes that have clusters.

    An API server can serve the types of Karmada and of KubeAdmiral although only one of them is in use.
    """
    found = control_plane_types(types, reader.server)
    required = [each for each in found if each.kind in _REQUIRED]
    results = concurrently(lambda each: list_allowed(reader, each, ""), required)
    if all(isinstance(each, Gap) for each in results):
        names = " or ".join(map(str, required))
        raise InputError(f"{reader.server}: no right to list {names}, without which there is no answer")
    for result in results:
        read.take(result)
    in_use = {document.kind for document in read.documents}
    karmada = not in_use or KARMADA[0][1] in in_use
    kubeadmiral = not in_use or KUBEADMIRAL[0][1] in in_use
    planes = (*(KARMADA if karmada else ()), *(KUBEADMIRAL if kubeadmiral else ()))
    return [each for each in found if each.kind not in _REQUIRED and (each.api_version, each.kind) in planes]


def read_policies(reader: CollectionReader, types: ServedTypes) -> FleetRead:
    """Read clusters and policies."""
    read = FleetRead()
    wanted = [each for each in read_clusters(reader, types, read) if each.kind.endswith("PropagationPolicy")]
    for result in concurrently(lambda each: list_allowed(reader, each, ""), wanted):
        read.take(result)
    return read


def read_lease(reader: CollectionReader, types: ServedTypes, key: Key, read: FleetRead) -> None:
    """Add the Lease of Berthmaster's controllers, without the name of its holder: it says how they are configured."""
    served = types.find("coordination.k8s.io/v1", "Lease")
    if served is None:
        return
    try:
        found = reader.get(served, key)
    except ApiError as error:
        if not error.forbidden:
            raise
        read.gaps.append(Gap(GapKind.SWITCHES, facts={"name": "/".join(key)}))
        return
    if found is not None:
        spec = found.raw.get("spec") or {}
        held = {**spec, "holderIdentity": _HOLDER} if spec.get("holderIdentity") else spec
        read.documents.append(replace(found, raw={**found.raw, "spec": held}))


def list_allowed(reader: CollectionReader, served: ServedType, namespace: str) -> Listing | Gap:
    """List a type. Return the gap if the user may not."""
    try:
        listing = reader.list(served, namespace if served.namespaced else "")
        # Decisions depend on whether there are such webhooks. Only Karmada can ask them.
        return listing._replace(documents=[]) if served.kind == INTERPRETER_WEBHOOKS else listing
    except ApiError as error:
        if not error.forbidden:
            raise
        return forbidden(served, namespace if served.namespaced else "")


def forbidden(served: ServedType, namespace: str, verb: str = "list") -> Gap:
    """Return the gap of a type that the user may not read."""
    facts = {"verb": verb, "type": str(served), "group": group_of(served.api_version), "kind": served.kind}
    return Gap(GapKind.FORBIDDEN, facts={**facts, "namespace": namespace} if namespace else facts)


def concurrently(function: Callable[[T], V], values: Iterable[T]) -> list[V]:
    """Call a function for several values at a time. Return the results in the order of the values."""
    with ThreadPoolExecutor(_CONCURRENT) as pool:
        return list(pool.map(function, values))


def _templates(
    reader: CollectionReader, types: ServedTypes, namespace: str, selection: TemplateSelection, kind: TemplateKind
) -> Listing | Gap | None:
    """Read the templates of a kind that the selection needs; None if the kind has none in the namespace."""
    served = types.find(kind.api_version, kind.kind)
    if served is None or "list" not in served.verbs:
        may_exist = kind.bound or served is not None or kind.api_version in types.unavailable
        unserved = GapKind.NOT_SERVED if may_exist else GapKind.NOT_SERVED_UNUSED
        return Gap(unserved, facts={"kind": kind.kind, "api_version": kind.api_version})
    if namespace and not served.namespaced:
        return None
    try:
        # A kind that no binding names has few templates that matter: metadata shows which.
        listing = reader.list(served, namespace, metadata_only=kind.metadata_suffices or not kind.bound)
        needed = [each for each in listing.documents if selection.needs(each)]
        if not kind.metadata_suffices and not kind.bound:
            needed = _in_full(reader, served, namespace, needed)
    except ApiError as error:
        if not error.forbidden:
            raise
        return forbidden(served, namespace)
    return Listing(needed, listing.record)


def _in_full(
    reader: CollectionReader, served: ServedType, namespace: str, metadata: Sequence[Document]
) -> list[Document]:
    """Read the objects whose metadata is known: few one by one, many in a list."""
    keys = [(each.namespace, each.name) for each in metadata]
    if len(keys) <= _MAX_SINGLE_GETS:
        found = (reader.get(served, key) for key in keys)
        return [each for each in found if each is not None]
    wanted = set(keys)
    return [each for each in reader.list(served, namespace).documents if (each.namespace, each.name) in wanted]
