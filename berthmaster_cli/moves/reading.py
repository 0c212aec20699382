"""Reads what the commands about moves need: clusters, bindings, and the lease of the controllers."""

import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_labels
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Self, TypeVar

from msgspec.structs import replace

from berthmaster.deciding.lease_record import BrakeRecord, LeaseRecord, lease_record
from berthmaster.kube import requests
from berthmaster.kube.client import APIClient, ask, ask_if_found
from berthmaster.kube.http_client import connect
from berthmaster.kube.informer import Informer
from berthmaster.kube.kinds import FEDERATED_QUOTAS, KARMADA_POLICIES
from berthmaster.kube.kubeconfig import ClusterAccess
from berthmaster.kube.lease import LEASES
from berthmaster.kube.listing import Unread, pages
from berthmaster.kube.responses import decode_response
from berthmaster.kube.source_check import SourceCheck
from berthmaster.kube.works import list_works, with_template
from berthmaster.manifests import Document, read_documents
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.control_planes import KARMADA
from berthmaster.model.decode import convert, decode_json, mapping_of
from berthmaster.model.errors import ApiError, FieldError, InputError
from berthmaster.model.gaps import Gap, GapKind, texts, unread_object
from berthmaster.model.meta import Key, object_name
from berthmaster.model.policy import PolicyReference
from berthmaster.model.readers import ANY_READER
from berthmaster.model.work import SPACE, Copies, FederatedResourceQuota, KarmadaWork, binding_id, copies_of
from berthmaster.runtime.clock import SystemClock
from berthmaster_cli.live.collections import ReadLimits
from berthmaster_cli.live.source import concurrently, list_allowed, reading
from berthmaster_cli.options import LeaseFlags, PlaneFlags

T = TypeVar("T")
_CLUSTER: Final = (KARMADA.cluster.api_version, KARMADA.cluster.kind)
_BINDINGS: Final = (
    ("work.karmada.io/v1alpha2", "ResourceBinding"),
    ("work.karmada.io/v1alpha2", "ClusterResourceBinding"),
)
MAX_WORKS: Final = 200_000
"""The most Works of one cluster."""
_LEASE: Final = ("coordination.k8s.io/v1", "Lease")
_POLL_S: Final = 0.2


class MovesAccessFlags(PlaneFlags, LeaseFlags):
    """A control plane, and the lease of its controllers."""


@dataclass(frozen=True, slots=True)
class MovesInput:
    """What was read.

    Attributes:
        knows_bindings: whether ``bindings`` and ``unread`` are all bindings that there are.
        unread: the bindings that exist and cannot be read: ``NAMESPACE/KIND/NAME``, and why.
        labels: the labels of the resources in files, by kind and key.
    """

    clusters: Mapping[str, Cluster]
    bindings: Sequence[Binding]
    lease: LeaseRecord | None
    now: datetime
    gaps: list[str] = field(default_factory=list)
    knows_bindings: bool = True
    unread: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[tuple[str, Key], Mapping[str, str]] = field(default_factory=dict)

    @property
    def braked(self) -> str:
        """Why the storm brake is engaged; empty if it is not, or if there is no lease."""
        return self.lease.brake.reason if self.lease is not None else ""


def read_live(access: ClusterAccess, flags: MovesAccessFlags, namespace: str = "") -> MovesInput:
    """Read a control plane. Raises ``InputError`` if it is no control plane of Karmada, or it exceeds a limit."""
    with reading(access, ReadLimits(timeout_s=flags.read_timeout_s)) as found:
        served = []
        for kind in (_CLUSTER, *_BINDINGS):
            each = found.types.find(*kind)
            if each is None:
                raise InputError(
                    f"{access}: this API server does not serve {kind[0]} {kind[1]}; name the context of Karmada's API "
                    "server with --context"
                )
            if not namespace or each.kind != _BINDINGS[1][1]:
                served.append(each)
        results = concurrently(lambda each: list_allowed(found.reader, each, namespace), served)
    documents = [document for each in results if not isinstance(each, Gap) for document in each.documents]
    hidden = [replace(each, kind=GapKind.FORBIDDEN_MOVES) for each in results if isinstance(each, Gap)]
    unread = [gap for each in results if not isinstance(each, Gap) for gap in each.gaps]
    gaps = texts(hidden, ANY_READER)
    knows_bindings = not any(isinstance(each, Gap) for each in results[1:])
    lease = _lease(connect(access), flags.lease, gaps)
    return _input(documents, lease, datetime.now(UTC), gaps, unread, knows_bindings=knows_bindings)


def read_files(paths: Sequence[str], key: Key, namespace: str = "") -> MovesInput:
    """Read a dump, or any manifests with bindings, instead of a control plane."""
    documents = list(read_documents(paths, stdin=sys.stdin.buffer))
    leases = [each.raw for each in documents if _is(each, _LEASE) and (each.namespace, each.name) == key]
    read_at = [str(each.raw.get("readAt")) for each in documents if each.kind == "FleetSnapshot"]
    gaps = [] if leases else ["no Lease of the controllers: the state of the storm brake is not known"]
    knows_bindings = bool(read_at) or any(_is(each, *_BINDINGS) for each in documents)
    if not knows_bindings:
        gaps.append("the manifests have no binding: moves are not known")
    wanted = [each for each in documents if not namespace or not _is(each, *_BINDINGS) or each.namespace == namespace]
    lease = leases[0] if leases else None
    found = _input(wanted, lease, _moment(read_at), gaps, knows_bindings=knows_bindings)
    return with_labels(found, labels={(each.kind, (each.namespace, each.name)): _labels(each) for each in documents})


def _labels(document: Document) -> Mapping[str, str]:
    return mapping_of(mapping_of(document.raw.get("metadata")).get("labels"))


def _moment(times: Sequence[str]) -> datetime:
    try:
        return datetime.fromisoformat(times[0])
    except (ValueError, IndexError):
        return datetime.now(UTC)


def _is(document: Document, *kinds: tuple[str, str]) -> bool:
    return (document.api_version, document.kind) in kinds


def _input(
    documents: Sequence[Document],
    lease: Mapping[str, Any] | None,
    now: datetime,
    gaps: Sequence[str],
    unread: Sequence[Gap] = (),
    *,
    knows_bindings: bool,
) -> MovesInput:
    clusters, more = _decoded(Cluster, [each for each in documents if _is(each, _CLUSTER)])
    bindings, others = _decoded(Binding, [each for each in documents if _is(each, *_BINDINGS)])
    found = [*unread, *more, *others]
    not_read = {resource: each.facts["problem"] for each in found for resource in each.about or ()}
    return MovesInput(
        {each.name: each for each in clusters},
        bindings,
        lease_record(lease) if lease is not None else None,
        now,
        [*gaps, *texts(found, ANY_READER)],
        knows_bindings,
        {name: problem for name, problem in not_read.items() if "Binding/" in name},
    )


def _decoded(kind: type[T], documents: Iterable[Document]) -> tuple[list[T], list[Gap]]:
    """Return the objects, and the gaps of those that cannot be decoded: one must not hide the others."""
    found, gaps = [], []
    for each in documents:
        try:
            found.append(convert(kind, each.raw))
        except FieldError as error:
            gaps.append(unread_object(each.kind, (each.namespace, each.name), f"cannot be decoded: {error}"))
    return found, gaps


def _lease(client: APIClient, key: tuple[str, str], gaps: list[str]) -> dict[str, Any] | None:
    try:
        body = ask_if_found(client, requests.get(LEASES, key))
    except ApiError as error:
        if not error.forbidden:
            raise
        gaps.append(f"no right to get the Lease {'/'.join(key)}: the state of the storm brake is not known")
        return None
    if body is None:
        gaps.append(
            f"there is no Lease {'/'.join(key)}: the state of the storm brake is not known; name the lease of the "
            "controllers with --lease-namespace and --lease-name"
        )
        return None
    return decode_response(dict[str, Any], body, "the lease")


@dataclass(frozen=True, slots=True)
class DrainFacts:
    """What a drain depends on besides clusters and bindings.

    Attributes:
        copies: the copies of the workloads on the clusters that are to be drained, by the permanent id of their
            binding; None if they are not known.
        annotations: the annotations of the policies.
        quotas: the quotas of all namespaces.
    """

    copies: Mapping[str, Copies] | None = None
    annotations: Mapping[PolicyReference, Mapping[str, str]] = field(default_factory=dict)
    quotas: Sequence[FederatedResourceQuota] = ()


def read_drain_facts(
    access: ClusterAccess, clusters: Iterable[str], bindings: Iterable[Binding], gaps: list[str]
) -> DrainFacts:
    """Read what keeps copies of some bindings on clusters. What may not be read becomes a gap."""
    client, names = connect(access), set(clusters)
    works: dict[str, list[KarmadaWork]] = defaultdict(list)
    try:
        for name in sorted(names):
            for work in list_works(client, MAX_WORKS, namespace=f"{SPACE}{name}"):
                works[binding_id(work)].append(work)
        known: dict[str, Copies] = {each: copies_of(listed) for each, listed in works.items()}
        for binding in bindings:
            if (own := binding_id(binding)) and own not in known and not names.isdisjoint(binding.assignment):
                known[own] = with_template(client, Copies(), binding)
    except ApiError as error:
        if not error.forbidden:
            raise
        gaps.append("no right to list Works: volumes, Jobs and paused workloads are not known")
        return DrainFacts(None, _annotations(client, gaps), _quotas(client, gaps))
    return DrainFacts(known, _annotations(client, gaps), _quotas(client, gaps))


def _annotations(client: APIClient, gaps: list[str]) -> dict[PolicyReference, Mapping[str, str]]:
    annotations: dict[PolicyReference, Mapping[str, str]] = {}
    try:
        for watched in KARMADA_POLICIES:
            for part in pages(partial(ask, client), watched.collection):
                policies = (watched.read(bytes(each)) for _, each in part.objects if not isinstance(each, Unread))
                annotations |= {policy.reference: policy.metadata.annotations for policy in policies}
    except ApiError as error:
        if not error.forbidden:
            raise
        gaps.append("no right to list policies: their annotations about moves are not known")
    return annotations


def _quotas(client: APIClient, gaps: list[str]) -> list[FederatedResourceQuota]:
    """Return the quotas of all namespaces: none if the control plane does not serve their kind."""
    found: list[FederatedResourceQuota] = []
    try:
        for part in pages(partial(ask, client), FEDERATED_QUOTAS.collection):
            found += (FEDERATED_QUOTAS.read(bytes(each)) for _, each in part.objects if not isinstance(each, Unread))
    except ApiError as error:
        if not (error.forbidden or error.not_found):
            raise
        if error.forbidden:
            gaps.append("no right to list FederatedResourceQuotas: what they keep from moving is not known")
    return found


class FollowedBindings:
    """The bindings of a control plane, kept up to date inside a ``with`` block."""

    def __init__(self, client: APIClient, lease: Key) -> None:
        self._client = client
        self._lease = lease
        self._changed = threading.Event()
        self._informers = [
            Informer(each, lambda raw: decode_json(Binding, raw), SystemClock())
            for each in (requests.RESOURCE_BINDINGS, requests.CLUSTER_RESOURCE_BINDINGS)
        ]
        for informer in self._informers:
            informer.on_contact(self._changed.set)
        self._source = SourceCheck([each.collection for each in self._informers], SystemClock(), self._changed.set)
        self._reported = ""

    def __enter__(self) -> Self:
        for informer in self._informers:
            informer.start(self._client)
        self._source.start(self._client)
        while not all(each.listed for each in self._informers):
            self.wait(_POLL_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._source.stop()
        for informer in self._informers:
            informer.stop()

    def bindings(self) -> Iterator[Binding]:
        return (binding for informer in self._informers for _, binding in informer.items())

    def unread(self) -> Mapping[str, str]:
        """Return the bindings that cannot be read, as in ``MovesInput``."""
        return {
            object_name(key[0], kind, key[1]): problem
            for (_, kind), informer in zip(_BINDINGS, self._informers, strict=True)
            for key, problem in informer.unread()
        }

    def wait(self, timeout_s: float) -> None:
        """Wait for the next message of the server, at most for some seconds."""
        self._changed.wait(timeout_s)
        self._changed.clear()

    def news(self) -> str:
        """Return a message if the bindings became stale or current again since the last call; else an empty text."""
        problem = self._source.problem or next((each.problem for each in self._informers if each.problem), "")
        if problem == self._reported:
            return ""
        self._reported = problem
        return f"the bindings are stale: {problem}" if problem else "the bindings are watched again"

    def brake(self) -> BrakeRecord:
        """Read the state of the storm brake. Without a right or a lease it counts as not engaged."""
        try:
            body = ask_if_found(self._client, requests.get(LEASES, self._lease))
        except ApiError:
            body = None
        return BrakeRecord() if body is None else lease_record(decode_response(dict[str, Any], body, "the lease")).brake
