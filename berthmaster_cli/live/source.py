"""Reads a live control plane into documents: the whole fleet, or what concerns one workload.

A simulation needs clusters, policies, bindings, and the templates that bindings name and policies select.
"""

import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec.structs

from berthmaster.kube.http_client import connect
from berthmaster.kube.kubeconfig import ClusterAccess
from berthmaster.kube.served_types import ServedType, ServedTypes, discover_types
from berthmaster.manifests.document import Document
from berthmaster.manifests.redaction import redacted
from berthmaster.manifests.snapshot import FleetSnapshot, ListRecord
from berthmaster.model.binding import Binding, binding_name
from berthmaster.model.claims import claims
from berthmaster.model.control_planes import CONTROL_PLANES, Role
from berthmaster.model.decode import convert, encode_json
from berthmaster.model.dependencies import Dependency, dependencies_of, recorded_dependencies
from berthmaster.model.errors import ApiError, FieldError, InputError, shown
from berthmaster.model.gaps import Gap, GapKind
from berthmaster.model.holding import may_be_held
from berthmaster.model.kinds import group_of, is_namespaced, metadata_suffices
from berthmaster.model.meta import Key
from berthmaster.model.policy import POLICY_KINDS, Policy
from berthmaster.model.policy_defaults import defaulted
from berthmaster.model.prerequisites import Prerequisite, prerequisites
from berthmaster.model.replicas import type_of
from berthmaster.model.skipped_resources import reason_not_propagated
from berthmaster.simulation.workload import ResourceName
from berthmaster_cli.live.collections import CollectionReader, Listing, ListingBars, ReadLimits

if TYPE_CHECKING:
    from berthmaster.kube.client import APIClient

T = TypeVar("T")
V = TypeVar("V")
INTERPRETER_WEBHOOKS: Final = "ResourceInterpreterWebhookConfiguration"
# Cluster-scoped objects that stand for cluster-scoped resources: one namespace has none of them.
_OF_CLUSTER_SCOPED: Final = frozenset(
    each.kind
    for plane in CONTROL_PLANES
    for each in plane.read
    if each.role is Role.BINDING and not is_namespaced(each.api_version, each.kind)
)
_REQUIRED: Final = tuple(each.cluster.kind for each in CONTROL_PLANES)
"""The kinds without which there is no answer."""
POLICY_GROUP: Final = "policy.karmada.io"
BINDING_GROUP: Final = "work.karmada.io"
_CONCURRENT: Final = 4
_MAX_SINGLE_GETS: Final = 50
_MOST: Final = 200
"""The most objects that are looked up, each by its name. The existence of others is not known."""
_BINDINGS: Final = ("ResourceBinding", "ClusterResourceBinding")


class TemplateSelection:
    """The templates that bindings name and policies select. Invalid policies are ignored: the loader reports them."""

    def __init__(self, bindings: Iterable[Document], policies: Iterable[Document]) -> None:
        self._policies = list(_policies(policies))
        self.bound: defaultdict[tuple[str, str], set[Key]] = defaultdict(set)
        """The namespaces and names that bindings name, by API version and kind."""
        for document in bindings:
            resource = (document.raw.get("spec") or {}).get("resource")
            if isinstance(resource, dict):
                kind = type_of(resource)
                self.bound[kind].add((str(resource.get("namespace") or ""), str(resource.get("name"))))

    def kinds(self) -> list[tuple[str, str]]:
        """Return the API versions and kinds in a fixed order, without those that Karmada never propagates."""
        selectors = (each for policy in self._policies for each in policy.spec.resource_selectors)
        kinds = self.bound.keys() | {(each.api_version, each.kind) for each in selectors}
        return [each for each in sorted(kinds) if reason_not_propagated(*each) is None]

    def needs(self, template: Document) -> bool:
        """Return whether a binding names a template, a policy selects it, or its labels record a claim."""
        if (template.namespace, template.name) in self.bound.get((template.api_version, template.kind), ()):
            return True
        return may_be_held(template.raw, lambda found: claims(found, self._policies))


@dataclass(slots=True)
class LiveRead:
    """What is read of a control plane. Objects of ``over`` will be laid over it: their policies select, too."""

    reader: CollectionReader
    types: ServedTypes
    over: Sequence[Document] = ()
    documents: list[Document] = field(default_factory=list)
    records: list[ListRecord] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    existing: dict[str, bool] = field(default_factory=dict)
    started: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))

    def read_fleet(self, namespace: str = "") -> None:
        """Read what a simulation needs, of one namespace or of all. An error if it is no control plane, or too much."""
        types_of_planes = self._read_clusters()
        self._list([each for each in types_of_planes if not (namespace and each.kind in _OF_CLUSTER_SCOPED)], namespace)
        bindings = (each for each in self.documents if group_of(each.api_version) == BINDING_GROUP)
        selection = TemplateSelection(bindings, self._policies())
        for found in concurrently(lambda each: self._templates(namespace, selection, each), selection.kinds()):
            self._take(found)

    def read_policies(self) -> None:
        """Read clusters and policies."""
        self._list([each for each in self._read_clusters() if each.kind.endswith("PropagationPolicy")])

    def read_workload(self, served: ServedType, name: ResourceName, *, with_peers: bool = False) -> None:
        """Read one workload, its binding, the policies that may claim it, and the clusters."""
        listed = [each for each in self._read_clusters() if _is_listed(each, name, with_peers=with_peers)]
        self._list(listed, name.namespace)
        key = (name.namespace, name.name)
        template = self._get(served, key, metadata_only=metadata_suffices(served.api_version, served.kind))
        of_binding = self.types.find("work.karmada.io/v1alpha2", _BINDINGS[0] if name.namespace else _BINDINGS[1])
        if of_binding is not None and not with_peers:
            self._take(self._get(of_binding, (name.namespace, binding_name(name.kind, name.name))))
        self._take(template)
        identities = {(each.namespace, each.kind, each.name) for each in (*self.documents, *self.over)}
        bound = any(each.api_version.startswith(BINDING_GROUP) for each in self.documents)
        if (name.namespace, served.kind, name.name) not in identities and not bound and not self.gaps:
            where = f" in the namespace {name.namespace}" if name.namespace else ""
            raise InputError(f"{self.reader.server}: there is no {served} {shown(name.name)}{where}")

    def lay_over(self, other: "LiveRead") -> None:
        """Add what another read has read. An object of both counts as the other has it."""
        known = {each.identity for each in other.documents}
        self.documents = [*other.documents, *(each for each in self.documents if each.identity not in known)]
        self.gaps = [*other.gaps, *(each for each in self.gaps if each not in other.gaps)]
        self.records = [*other.records, *self.records]

    def read_lease(self, key: Key) -> None:
        """Add the Lease of our controllers without the name of its holder. It says how they are configured."""
        served = self.types.find("coordination.k8s.io/v1", "Lease")
        if served is None:
            return
        found = _allowed(lambda: self.reader.get(served, key), served, key[0])
        if isinstance(found, Gap):
            self.gaps.append(Gap(GapKind.SWITCHES, facts={"name": "/".join(key)}))
        elif found is not None:
            spec = found.raw.get("spec") or {}
            held = {**spec, "holderIdentity": "a process"} if spec.get("holderIdentity") else spec
            self.documents.append(replace(found, raw={**found.raw, "spec": held}))

    def read_waited_for(self) -> None:
        """Record whether the overrides and priority classes exist that policies name."""
        names = list(dict.fromkeys(prerequisites(_policies(self._policies()))))[:_MOST]
        wanted = [Prerequisite.of(name) for name in names]
        answers = concurrently(lambda each: self._metadata(each.api_version, each.kind, each.key), wanted)
        for name, each, answer in zip(names, wanted, answers, strict=True):
            if isinstance(answer, Gap):
                self._miss(answer)
            elif answer is not None or self.types.find(each.api_version, each.kind) is not None:
                self.existing[name] = answer is not None

    def read_dependencies(self, workload: Key, kind: str) -> None:
        """Add the metadata of what follows a workload (``propagateDeps``), so that the names are known."""
        known = {(each.kind, each.namespace, each.name) for each in self.documents}
        needed = self._needed(workload, kind)[:_MOST]
        wanted = [each for each in needed if each.name and (each.kind, each.namespace, each.name) not in known]

        def look(each: Dependency) -> Document | Gap | None:
            return self._metadata(each.api_version, each.kind, (each.namespace, each.name))

        for found in concurrently(look, wanted):
            if isinstance(found, Document):
                self.documents.append(found)
            elif found is not None:
                self._miss(found)

    def _take(self, result: Listing | Gap | None) -> None:
        """Add the objects of a list, or the gap."""
        if isinstance(result, Gap):
            self.gaps.append(result)
        elif result is not None:
            self.documents += result.documents
            self.gaps += result.gaps
            self.records.append(result.record)

    def _miss(self, gap: Gap) -> None:
        if gap not in self.gaps:
            self.gaps.append(gap)

    def _policies(self) -> list[Document]:
        """Return the policies that were read, and those of objects that will be laid over them."""
        known = (*self.documents, *self.over)
        return [each for each in known if each.kind in POLICY_KINDS and group_of(each.api_version) == POLICY_GROUP]

    def _list(self, wanted: Iterable[ServedType], namespace: str = "") -> None:
        for result in concurrently(lambda each: list_allowed(self.reader, each, namespace), wanted):
            self._take(result)

    def _read_clusters(self) -> list[ServedType]:
        """Read the clusters, and return the other types of the control planes in use: those that have clusters."""
        found = _control_plane_types(self.types, self.reader.server)
        required = [each for each in found if each.kind in _REQUIRED]
        self._list(required)
        if not self.records:
            names = " or ".join(map(str, required))
            raise InputError(f"{self.reader.server}: no right to list {names}, without which there is no answer")
        in_use = {document.kind for document in self.documents}
        planes = [each for each in CONTROL_PLANES if not in_use or each.cluster.kind in in_use]
        kinds = {(each.api_version, each.kind) for plane in planes for each in plane.read}
        return [each for each in found if each.kind not in _REQUIRED and (each.api_version, each.kind) in kinds]

    def _templates(self, namespace: str, selection: TemplateSelection, kind: tuple[str, str]) -> Listing | Gap | None:
        """Read the templates of a kind that the selection needs; None if the kind has none in the namespace."""
        served, is_bound = self.types.find(*kind), kind in selection.bound
        if served is None or "list" not in served.verbs:
            may_exist = is_bound or served is not None or kind[0] in self.types.unavailable
            unserved = GapKind.NOT_SERVED if may_exist else GapKind.NOT_SERVED_UNUSED
            return Gap(unserved, facts={"kind": kind[1], "api_version": kind[0]})
        if namespace and not served.namespaced:
            return None

        def read() -> Listing:
            # A kind that no binding names has few templates that matter: metadata shows which.
            in_full = not metadata_suffices(*kind)
            listing = self.reader.list(served, namespace, metadata_only=not (in_full and is_bound))
            needed, gaps = [each for each in listing.documents if selection.needs(each)], tuple[Gap, ...]()
            if in_full and not is_bound:
                needed, gaps = self._in_full(served, namespace, needed)
            return Listing(needed, listing.record, [*listing.gaps, *gaps])

        return _allowed(read, served, namespace, "list")

    def _in_full(
        self, served: ServedType, namespace: str, metadata: Sequence[Document]
    ) -> tuple[list[Document], tuple[Gap, ...]]:
        """Read the objects whose metadata is known: few one by one, many in a list."""
        keys = [(each.namespace, each.name) for each in metadata]
        if len(keys) <= _MAX_SINGLE_GETS:
            found = [self.reader.get(served, key) for key in keys]
            gaps = tuple(each for each in found if isinstance(each, Gap))
            return [each for each in found if isinstance(each, Document)], gaps
        wanted = set(keys)
        listing = self.reader.list(served, namespace)
        return [each for each in listing.documents if (each.namespace, each.name) in wanted], tuple(listing.gaps)

    def _get(self, served: ServedType, key: Key, *, metadata_only: bool = False) -> Listing | Gap | None:
        """Get one object. Return None if it does not exist, and the gap if the user may not read it."""
        found = _allowed(lambda: self.reader.get(served, key, metadata_only=metadata_only), served, key[0])
        if found is None or isinstance(found, Gap):
            return found
        version = str(found.raw["metadata"].get("resourceVersion") or "")
        now = datetime.now(UTC).replace(microsecond=0)
        return Listing([found], ListRecord(str(served), key[0], version, 1, now, metadata_only))

    def _metadata(self, api_version: str, kind: str, key: Key) -> Document | Gap | None:
        """Get the metadata of one object; None if it does not exist, or if its kind is not served."""
        served = self.types.find(api_version, kind)
        if served is None:
            return None
        return _allowed(lambda: self.reader.get(served, key, metadata_only=True), served, key[0])

    def _needed(self, workload: Key, kind: str) -> Sequence[Dependency]:
        """Return the dependencies of a workload: those on its binding, or else those of its template."""
        found: dict[tuple[str, str], Dependency] = {}
        for document in self.documents:
            needed: Sequence[Dependency] | None = None
            if group_of(document.api_version) == BINDING_GROUP:
                with suppress(FieldError):
                    binding = convert(Binding, document.raw)
                    resource = binding.spec.resource
                    if (resource.kind, resource.namespace, resource.name) == (kind, *workload):
                        needed = recorded_dependencies(binding.metadata.annotations)
            elif (document.kind, document.namespace, document.name) == (kind, *workload):
                needed = dependencies_of(document.raw)
            found |= {(each.kind, each.name): each for each in needed or ()}
        return list(found.values())

    def live(self, access: ClusterAccess, name: ResourceName | None = None) -> "LiveDocuments":
        """Return what was read."""
        records, gaps = tuple(self.records), tuple(self.gaps)
        snapshot = FleetSnapshot(access.context or "pod", self.started, records, gaps, self.existing)
        return LiveDocuments(self.documents, snapshot, name)


def _control_plane_types(types: ServedTypes, server: str) -> list[ServedType]:
    """Return the types of control planes that an API server serves; an error if it is no control plane."""
    for plane in CONTROL_PLANES:
        if plane.cluster.api_version in types.unavailable:
            raise InputError(
                f"{server}: {plane.cluster.api_version} is registered, but the API server behind it does not respond; "
                "check karmada-aggregated-apiserver"
            )
    kinds = (each for plane in CONTROL_PLANES for each in plane.read)
    found = [served for each in kinds if (served := types.find(each.api_version, each.kind)) is not None]
    if not any(each.kind in _REQUIRED for each in found):
        planes = " nor ".join(f"{each.cluster.api_version} ({each.name})" for each in CONTROL_PLANES)
        raise InputError(
            f"{server}: this API server serves neither {planes}; name the context of the control plane with --context, "
            "not that of its host, or name manifests with -f"
        )
    return found


def list_allowed(reader: CollectionReader, served: ServedType, namespace: str) -> Listing | Gap:
    """List a type. Return the gap if the user may not."""
    where = namespace if served.namespaced else ""
    listing = _allowed(lambda: reader.list(served, where), served, where, "list")
    if isinstance(listing, Gap) or served.kind != INTERPRETER_WEBHOOKS:
        return listing
    # Decisions depend on whether there are such webhooks. Only Karmada can ask them.
    return listing._replace(documents=[])


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


def _policies(documents: Iterable[Document]) -> Iterable[Policy]:
    for document in documents:
        try:
            yield defaulted(convert(Policy, document.raw))
        except FieldError:
            continue


def resolved(types: ServedTypes, name: ResourceName, namespace: str) -> tuple[ServedType, ResourceName]:
    """Return the type that a name means, and the name with its kind and namespace."""
    served = types.resolve(name.kind)
    if served is None:
        raise InputError(f"the API server has no resource type {shown(name.kind)}; `kubectl api-resources` lists them")
    return served, ResourceName(name.namespace or namespace if served.namespaced else "", served.kind, name.name)


def _is_listed(each: ServedType, name: ResourceName, *, with_peers: bool) -> bool:
    """Return whether all objects of a type of the control plane matter for one workload."""
    if each.kind in _BINDINGS:
        return with_peers and each.namespaced and bool(name.namespace)
    return not each.namespaced or bool(name.namespace)


class LiveDocuments(NamedTuple):
    """What was read from a control plane. ``documents``: the objects in a fixed order, the same for the same state."""

    documents: list[Document]
    snapshot: FleetSnapshot
    name: ResourceName | None = None

    def all(self) -> list[Document]:
        """Return the objects and the record of the read, as a dump holds them."""
        record = Document(self.snapshot.name, 0, "", self.snapshot.manifest())
        return [record, *self.documents]


@contextmanager
def reading(access: ClusterAccess, limits: ReadLimits, over: Sequence[Document] = ()) -> Iterator[LiveRead]:
    """Read a control plane in a ``with`` block. At its end, the Lease of the controllers is read as ``limits`` say."""
    client: APIClient = connect(access)
    with ListingBars() as bars:
        found = LiveRead(CollectionReader(client, str(access), limits, bars), discover_types(client), over)
        yield found
        if limits.lease is not None:
            found.read_lease(limits.lease)


def live_fleet(
    access: ClusterAccess, limits: ReadLimits, namespace: str = "", over: Sequence[Document] = ()
) -> LiveDocuments:
    """Read everything that a simulation needs; see ``LiveRead.read_fleet``."""
    with reading(access, limits, over) as found:
        found.read_fleet(namespace)
        found.read_waited_for()
    return found.live(access)


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
    """Read what the explanation of one workload needs; see ``LiveRead.read_workload``.

    Args:
        namespace: the namespace if the name has none; empty for that of the context.
        with_peers: whether workload affinity refers to other bindings.
        with_others: whether changes can move workloads that it follows. Then all of its namespace are read.
    """
    with reading(access, limits, over) as found:
        served, full = resolved(found.types, name, namespace or access.namespace)
        found.read_workload(served, full, with_peers=with_peers)
        if with_others and full.namespace:
            others = LiveRead(found.reader, found.types, over)
            others.read_fleet(full.namespace)
            found.lay_over(others)
        found.read_waited_for()
        found.read_dependencies((full.namespace, full.name), full.kind)
    return found.live(access, full)


def write_dump(live: LiveDocuments, path: Path, *, redact: bool) -> None:
    """Write a ``List`` as JSON, one object a line. Only the user can read it, and it appears when it is complete."""
    snapshot = msgspec.structs.replace(live.snapshot, redacted=redact)
    items = (redacted(each.raw) if redact else each.raw for each in live.documents)
    name = ""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # with mode 0600
        with os.fdopen(handle, "wb") as file:
            file.write(b'{"apiVersion": "v1", "kind": "List", "items": [\n' + encode_json(snapshot.manifest()))
            for item in items:
                file.write(b",\n" + encode_json(item))
            file.write(b"\n]}\n")
        Path(name).replace(path)
    except OSError as error:
        with suppress(OSError):
            Path(name).unlink()
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
