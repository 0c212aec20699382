"""Reads a live control plane into documents: the whole fleet, or what concerns one workload.

A simulation needs clusters, policies, bindings, and the templates that bindings name and policies select.
"""

import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, TypeVar

import msgspec.structs

from berthmaster.kube.http_client import connect
from berthmaster.kube.kubeconfig import ClusterAccess
from berthmaster.kube.served_types import ServedType, ServedTypes, discover_types
from berthmaster.manifests.files import Document, FleetSnapshot, ListRecord
from berthmaster.manifests.redaction import redacted
from berthmaster.model.binding import Binding, binding_name
from berthmaster.model.claims import PERMANENT_ID, WaitedFor, claims, waited_for
from berthmaster.model.decode import convert, encode_json
from berthmaster.model.errors import ApiError, FieldError, InputError, shown
from berthmaster.model.gaps import Gap, GapKind
from berthmaster.model.interpretation import Dependency, dependencies_of, recorded_dependencies
from berthmaster.model.kinds import group_of, metadata_suffices, reason_not_propagated
from berthmaster.model.meta import Key
from berthmaster.model.policy import POLICY_KINDS, TAINT_POLICY, TAINT_POLICY_API, Policy, defaulted
from berthmaster.model.replicas import template_of
from berthmaster.simulation.workload import ResourceName
from berthmaster_cli.live.collections import CollectionReader, Listing, ListingBars, ReadLimits

if TYPE_CHECKING:
    from berthmaster.kube.client import APIClient


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
        self._policies = list(_policies(policies))
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
    found = _allowed(lambda: reader.get(served, key), served, key[0])
    if isinstance(found, Gap):
        read.gaps.append(Gap(GapKind.SWITCHES, facts={"name": "/".join(key)}))
    elif found is not None:
        spec = found.raw.get("spec") or {}
        held = {**spec, "holderIdentity": _HOLDER} if spec.get("holderIdentity") else spec
        read.documents.append(replace(found, raw={**found.raw, "spec": held}))


def list_allowed(reader: CollectionReader, served: ServedType, namespace: str) -> Listing | Gap:
    """List a type. Return the gap if the user may not."""
    where = namespace if served.namespaced else ""
    listing = _allowed(lambda: reader.list(served, where), served, where, "list")
    if isinstance(listing, Gap) or served.kind != INTERPRETER_WEBHOOKS:
        return listing
    return listing._replace(
        documents=[]
    )  # Decisions depend on whether there are such webhooks. Only Karmada asks them.


def _allowed(read: Callable[[], T], served: ServedType, namespace: str, verb: str = "get") -> T | Gap:
    """Read objects of a type. Return the gap if the user may not."""
    try:
        return read()
    except ApiError as error:
        if not error.forbidden:
            raise
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

    def read() -> Listing:
        # A kind that no binding names has few templates that matter: metadata shows which.
        listing = reader.list(served, namespace, metadata_only=kind.metadata_suffices or not kind.bound)
        needed = [each for each in listing.documents if selection.needs(each)]
        if not kind.metadata_suffices and not kind.bound:
            needed = _in_full(reader, served, namespace, needed)
        return Listing(needed, listing.record)

    return _allowed(read, served, namespace, "list")


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


_MOST: Final = 200
"""The most objects that are looked up, each by its name. The existence of others is not known."""


def read_waited_for(reader: CollectionReader, types: ServedTypes, read: FleetRead, over: Sequence[Document]) -> None:
    """Record whether the overrides and priority classes exist that policies name.

    Args:
        read: what was read; gets what exists, and the gaps.
        over: objects that will be laid over the stored ones.
    """
    names = list(dict.fromkeys(waited_for(_policies(read.policies(over)))))[:_MOST]

    def look(name: str) -> bool | Gap | None:
        return _exists(reader, types, WaitedFor.of(name))

    for name, answer in zip(names, concurrently(look, names), strict=True):
        if isinstance(answer, bool):
            read.existing[name] = answer
        elif answer is not None and answer not in read.gaps:
            read.gaps.append(answer)


def read_dependencies(reader: CollectionReader, types: ServedTypes, read: FleetRead, workload: Key, kind: str) -> None:
    """Add the metadata of the resources that follow a workload (``propagateDeps``), so that their names are known."""
    known = {(each.kind, each.namespace, each.name) for each in read.documents}

    def look(each: Dependency) -> Document | Gap | None:
        served = types.find(each.api_version, each.kind)
        if served is None:
            return None
        key = each.namespace, each.name
        return _allowed(lambda: reader.get(served, key, metadata_only=True), served, each.namespace)

    wanted = [
        each
        for each in _needed(read, workload, kind)[:_MOST]
        if each.name and (each.kind, each.namespace, each.name) not in known
    ]
    for found in concurrently(look, wanted):
        if isinstance(found, Document):
            read.documents.append(found)
        elif found is not None and found not in read.gaps:
            read.gaps.append(found)


def _exists(reader: CollectionReader, types: ServedTypes, wanted: WaitedFor) -> bool | Gap | None:
    served = types.find(wanted.api_version, wanted.kind)
    if served is None:
        return None
    return _allowed(lambda: reader.get(served, wanted.key, metadata_only=True) is not None, served, wanted.key[0])


def _needed(read: FleetRead, workload: Key, kind: str) -> Sequence[Dependency]:
    """Return the dependencies of a workload: those on its binding, or else those of its template."""
    found: dict[tuple[str, str], Dependency] = {}
    for document in read.documents:
        needed: Sequence[Dependency] | None = None
        if group_of(document.api_version) == BINDING_GROUP:
            needed = _recorded(document, workload, kind)
        elif (document.kind, document.namespace, document.name) == (kind, *workload):
            needed = dependencies_of(document.raw)
        found |= {(each.kind, each.name): each for each in needed or ()}
    return list(found.values())


def _recorded(document: Document, workload: Key, kind: str) -> Sequence[Dependency] | None:
    try:
        binding = convert(Binding, document.raw)
    except FieldError:
        return None
    resource = binding.spec.resource
    same = (resource.kind, resource.namespace, resource.name) == (kind, *workload)
    return recorded_dependencies(binding.metadata.annotations) if same else None


def _policies(documents: Iterable[Document]) -> Iterable[Policy]:
    for document in documents:
        try:
            yield defaulted(convert(Policy, document.raw))
        except FieldError:
            continue


_BINDINGS: Final = ("ResourceBinding", "ClusterResourceBinding")


def resolved(types: ServedTypes, name: ResourceName, namespace: str) -> tuple[ServedType, ResourceName]:
    """Return the type that a name means, and the name with its kind and namespace."""
    served = types.resolve(name.kind)
    if served is None:
        raise InputError(f"the API server has no resource type {shown(name.kind)}; `kubectl api-resources` lists them")
    return served, ResourceName(name.namespace or namespace if served.namespaced else "", served.kind, name.name)


def read_workload(
    reader: CollectionReader,
    types: ServedTypes,
    served: ServedType,
    name: ResourceName,
    *,
    over: Sequence[Document] = (),
    with_peers: bool = False,
) -> FleetRead:
    """Read one workload, its binding, the policies that may claim it, and the clusters."""
    read = FleetRead()
    types_of_planes = read_clusters(reader, types, read)
    listed = [each for each in types_of_planes if _is_listed(each, name, with_peers=with_peers)]
    for result in concurrently(lambda each: list_allowed(reader, each, name.namespace), listed):
        read.take(result)
    key = (name.namespace, name.name)
    template = _get(reader, served, key, metadata_only=metadata_suffices(served.api_version, served.kind))
    binding = None if with_peers else _binding(reader, types, name)
    for found in (binding, template):
        read.take(found)
    identities = {(each.namespace, each.kind, each.name) for each in (*read.documents, *over)}
    bound = any(each.api_version.startswith(BINDING_GROUP) for each in read.documents)
    if (name.namespace, served.kind, name.name) not in identities and not bound and not read.gaps:
        where = f" in the namespace {name.namespace}" if name.namespace else ""
        raise InputError(f"{reader.server}: there is no {served} {shown(name.name)}{where}")
    return read


def _is_listed(each: ServedType, name: ResourceName, *, with_peers: bool) -> bool:
    """Return whether all objects of a type of the control plane matter for one workload."""
    if each.kind in _BINDINGS:
        return with_peers and each.namespaced and bool(name.namespace)
    return not each.namespaced or bool(name.namespace)


def _binding(reader: CollectionReader, types: ServedTypes, name: ResourceName) -> Listing | Gap | None:
    kind = _BINDINGS[0] if name.namespace else _BINDINGS[1]
    served = types.find("work.karmada.io/v1alpha2", kind)
    return _get(reader, served, (name.namespace, binding_name(name.kind, name.name))) if served is not None else None


def _get(
    reader: CollectionReader, served: ServedType, key: Key, *, metadata_only: bool = False
) -> Listing | Gap | None:
    """Get one object. Return None if it does not exist, and the gap if the user may not read it."""
    found = _allowed(lambda: reader.get(served, key, metadata_only=metadata_only), served, key[0])
    if found is None or isinstance(found, Gap):
        return found
    version = str(found.raw["metadata"].get("resourceVersion") or "")
    now = datetime.now(UTC).replace(microsecond=0)
    return Listing([found], ListRecord(str(served), key[0], version, 1, now, metadata_only))


class LiveDocuments(NamedTuple):
    """What was read from a control plane.

    Attributes:
        documents: the objects in a fixed order, the same for the same state.
    """

    documents: list[Document]
    snapshot: FleetSnapshot
    name: ResourceName | None = None

    def all(self) -> list[Document]:
        """Return the objects and the record of the read, as a dump holds them."""
        record = Document(self.snapshot.name, 0, "", self.snapshot.manifest())
        return [record, *self.documents]


def live_fleet(
    access: ClusterAccess, limits: ReadLimits, namespace: str = "", over: Sequence[Document] = ()
) -> LiveDocuments:
    """Read everything that a simulation needs; see ``read_fleet``."""

    def read(reader: CollectionReader, types: ServedTypes) -> tuple[FleetRead, None]:
        found = read_fleet(reader, types, namespace, over)
        read_waited_for(reader, types, found, over)
        return found, None

    return _read(access, limits, read)


def live_policies(access: ClusterAccess, limits: ReadLimits) -> LiveDocuments:
    """Read clusters and policies; see ``read_policies``."""
    return _read(access, limits, lambda reader, types: (read_policies(reader, types), None))


def live_workload(
    access: ClusterAccess,
    limits: ReadLimits,
    name: ResourceName,
    namespace: str,
    over: Sequence[Document] = (),
    *,
    with_peers: bool = False,
    with_others: bool = False,
) -> LiveDocuments:
    """Read what the explanation of one workload needs; see ``read_workload``.

    Args:
        namespace: the namespace if the name has none; empty for that of the context.
        with_peers: whether workload affinity refers to other bindings.
        with_others: whether changes can move workloads that it follows. Then all of its namespace are read.
    """

    def read(reader: CollectionReader, types: ServedTypes) -> tuple[FleetRead, ResourceName]:
        served, found = resolved(types, name, namespace or access.namespace)
        result = read_workload(reader, types, served, found, over=over, with_peers=with_peers)
        if with_others and found.namespace:
            result = joined(read_fleet(reader, types, found.namespace, over), result)
        read_waited_for(reader, types, result, over)
        read_dependencies(reader, types, result, (found.namespace, found.name), found.kind)
        return result, found

    return _read(access, limits, read)


def _read(
    access: ClusterAccess,
    limits: ReadLimits,
    read: Callable[[CollectionReader, ServedTypes], tuple[FleetRead, ResourceName | None]],
) -> LiveDocuments:
    started = datetime.now(UTC).replace(microsecond=0)
    client: APIClient = connect(access)
    with ListingBars() as bars:
        reader = CollectionReader(client, str(access), limits, bars)
        types = discover_types(client)
        found, name = read(reader, types)
        if limits.lease is not None:
            read_lease(reader, types, limits.lease, found)
    snapshot = FleetSnapshot(access.context or "pod", started, tuple(found.records), tuple(found.gaps), found.existing)
    return LiveDocuments(found.documents, snapshot, name)


def write_dump(live: LiveDocuments, path: Path, *, redact: bool) -> None:
    """Write a ``v1`` ``List`` as JSON, which is YAML as well, with one object in each line.

    Only the user can read the file. It appears under its name when it is complete.
    """
    snapshot = msgspec.structs.replace(live.snapshot, redacted=redact)
    items = (redacted(each.raw) if redact else each.raw for each in live.documents)
    name = ""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # with mode 0600
        with os.fdopen(handle, "wb") as file:
            _write(file, [snapshot.manifest()], items)
        Path(name).replace(path)
    except OSError as error:
        with suppress(OSError):
            Path(name).unlink()
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _write(file: BinaryIO, *groups: Iterable[dict[str, Any]]) -> None:
    file.write(b'{"apiVersion": "v1", "kind": "List", "items": [')
    separator = b"\n"
    for group in groups:
        for item in group:
            file.write(separator + encode_json(item))
            separator = b",\n"
    file.write(b"\n]}\n")
