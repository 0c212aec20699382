"""Facts about clusters, bindings and leases. Lists are read page by page up to a bound."""

import re
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeVar

import msgspec

from berthmaster.deciding.lease_record import SOURCES, sources_record
from berthmaster.kube.client import ask_if_found, read_body
from berthmaster.kube.kinds import KARMADA_CLUSTERS
from berthmaster.kube.lease import LEASES
from berthmaster.kube.requests import (
    CLUSTER_RESOURCE_BINDINGS,
    RESOURCE_BINDINGS,
    APIRequest,
    Collection,
    ListMeta,
    create,
    get,
    page,
)
from berthmaster.model.binding import SCHEDULED
from berthmaster.model.errors import ApiError, InputError
from berthmaster_cli.doctor.facts import BindingFacts, DryRunFacts, EndpointFacts, FleetFacts, LeaseFacts, WebhookFacts
from berthmaster_cli.doctor.gather.client import DoctorClient, decode, dry_run
from certs.bundle import MUTATING, VALIDATING, Bundle, ConfigurationKind, bundle_fields, bundles, certificate_of
from certs.registration import Endpoint

T = TypeVar("T")
MAX_PAGES: Final = 20
CLUSTERS: Final = KARMADA_CLUSTERS.collection
BINDINGS: Final = (RESOURCE_BINDINGS, CLUSTER_RESOURCE_BINDINGS)
_SETTLED: Final = timedelta(seconds=60)
"""A younger binding may not have been scheduled yet."""
_MAX_LEASES: Final = 2000


class _ListedMetadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    annotations: dict[str, str] = {}

    @property
    def path(self) -> str:
        return "/".join(filter(None, (self.namespace, self.name)))


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""


class _ClusterStatus(msgspec.Struct, frozen=True, rename="camel"):
    conditions: tuple[_Condition, ...] = ()
    resource_summary: dict[str, Any] | None = None


class _Cluster(msgspec.Struct, frozen=True):
    metadata: _ListedMetadata
    status: _ClusterStatus = _ClusterStatus()


class _BindingSpec(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_name: str = ""


class _BindingStatus(msgspec.Struct, frozen=True, rename="camel"):
    conditions: tuple[_Condition, ...] = ()
    scheduler_observed_generation: int = 0


class _Binding(msgspec.Struct, frozen=True):
    metadata: _ListedMetadata
    spec: _BindingSpec = _BindingSpec()
    status: _BindingStatus = _BindingStatus()


class _LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    renew_time: datetime | None = None
    lease_duration_seconds: int | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: _ListedMetadata
    spec: _LeaseSpec = _LeaseSpec()

    def facts(self) -> LeaseFacts:
        metadata, spec = self.metadata, self.spec
        holder, duration_s = spec.holder_identity or "", spec.lease_duration_seconds or 0
        sources = sources_record(metadata.annotations.get(SOURCES))
        return LeaseFacts(metadata.namespace, metadata.name, holder, spec.renew_time, duration_s, sources)


class _List(msgspec.Struct, Generic[T], frozen=True):
    metadata: ListMeta = ListMeta()
    items: list[T] = []


def clusters(client: DoctorClient) -> FleetFacts:
    """List the clusters."""
    found, complete = [], True
    for each in _pages(client, CLUSTERS, _List[_Cluster]):
        found += each.items
        complete = not each.metadata.continue_
    return FleetFacts(
        total=len(found),
        not_ready=tuple(each.metadata.name for each in found if not _is_ready(each)),
        unmeasured=tuple(
            each.metadata.name for each in found if not (each.status.resource_summary or {}).get("allocatable")
        ),
        complete=complete,
    )


def bindings(client: DoctorClient, ours: str, now: datetime) -> BindingFacts:
    """List the bindings of both kinds."""
    by_scheduler: Counter[str] = Counter()
    stale, unschedulable, complete = [], [], True
    for collection in BINDINGS:
        last = _List[_Binding]()
        for last in _pages(client, collection, _List[_Binding]):
            for each in last.items:
                by_scheduler[each.spec.scheduler_name] += 1
                if each.spec.scheduler_name != ours or each.metadata.deletion_timestamp:
                    continue
                if _is_stale(each, now):
                    stale.append(each.metadata.path)
                elif (reason := _failure(each)) is not None:
                    unschedulable.append((each.metadata.path, reason))
        complete = complete and not last.metadata.continue_
    return BindingFacts(dict(by_scheduler), tuple(stale), tuple(unschedulable), complete)


def _pages(client: DoctorClient, collection: Collection, kind: type[_List[T]]) -> Iterator[_List[T]]:
    token = ""
    for _ in range(MAX_PAGES):
        found = client.read_as(kind, page(collection, token, client.read_timeout_s))
        yield found
        token = found.metadata.continue_
        if not token:
            return


def _is_ready(cluster: _Cluster) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in cluster.status.conditions)


def _is_stale(binding: _Binding, now: datetime) -> bool:
    """Whether a binding that is not new changed after the scheduler observed it."""
    created = binding.metadata.creation_timestamp
    settled = created is None or now - created > _SETTLED
    return settled and binding.metadata.generation > binding.status.scheduler_observed_generation


def _failure(binding: _Binding) -> str | None:
    """The reason why a binding could not be scheduled; None if it was."""
    for each in binding.status.conditions:
        if each.type == SCHEDULED and each.status != "True":
            return each.reason or "Unknown"
    return None


def lease(client: DoctorClient, namespace: str, name: str) -> LeaseFacts | None:
    """Read a lease; None if it does not exist."""
    body = ask_if_found(client, get(LEASES, (namespace, name)))
    return decode(_Lease, body).facts() if body is not None else None


def leases_named(client: DoctorClient, name: str) -> list[LeaseFacts]:
    """List the leases of a name in all namespaces."""
    query = (("fieldSelector", f"metadata.name={name}"), ("limit", str(_MAX_LEASES)))
    return [each.facts() for each in client.read_as(_List[_Lease], APIRequest(LEASES.path, query)).items]


REVIEWED_GROUPS: Final = frozenset({"policy.karmada.io", "apps.karmada.io"})
"""The API groups that Berthmaster reviews. Webhooks for others are ignored."""
TRIES: Final = 5
_DEFAULT_TIMEOUT_S: Final = 10.0  # the API server's
_POLICY_API: Final = "policy.karmada.io/v1alpha1"
_POLICIES: Final = Collection.of(_POLICY_API, "propagationpolicies")
_CLUSTER_POLICIES: Final = Collection.of(_POLICY_API, "clusterpropagationpolicies")
_METADATA: Final = {"generateName": "berthmaster-doctor-"}
_SELECTOR: Final = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "berthmaster-doctor"}
# Lacks spreadByField and minGroups: the schema has no default for them, and every policy webhook has.
GOOD: Final[dict[str, Any]] = {
    "apiVersion": _POLICY_API,
    "kind": "PropagationPolicy",
    "metadata": _METADATA,
    "spec": {"resourceSelectors": [_SELECTOR], "placement": {"spreadConstraints": [{"maxGroups": 2}]}},
}
# Acceptable to karmada-webhook. It breaks our rule preemption-without-namespace.
BAD: Final[dict[str, Any]] = {
    "apiVersion": _POLICY_API,
    "kind": "ClusterPropagationPolicy",
    "metadata": _METADATA,
    "spec": {"resourceSelectors": [_SELECTOR], "preemption": "Always", "priority": 1},
}
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')  # RFC 7234, section 5.5


def registered(client: DoctorClient) -> list[WebhookFacts]:
    """List the webhooks of Berthmaster, and those of others for the same API groups."""
    found: list[WebhookFacts] = []
    for kind in (MUTATING, VALIDATING):
        for item in client.read(APIRequest(kind.collection.path)).get("items") or []:
            found += [each for each in _webhooks(kind, item) if each.ours or _reviews_ours(each)]
    return found


def _reviews_ours(webhook: WebhookFacts) -> bool:
    return any(each.partition(".")[2] in REVIEWED_GROUPS for each in webhook.resources)


def _webhooks(kind: ConfigurationKind, item: Mapping[str, Any]) -> Iterator[WebhookFacts]:
    configuration = str((item.get("metadata") or {}).get("name"))
    try:
        called = list(zip(item.get("webhooks") or [], bundle_fields(kind, item), bundles(kind, item), strict=True))
    except InputError:
        return
    for webhook, field, bundle in called:
        timeout_s = webhook.get("timeoutSeconds")
        yield WebhookFacts(
            kind=kind.kind,
            configuration=configuration,
            name=str(webhook.get("name")),
            url=field.url,
            is_service="service" in webhook["clientConfig"],
            bundle=bundle,
            resources=_resources(webhook),
            fails_closed=webhook.get("failurePolicy") != "Ignore",
            timeout_s=float(timeout_s) if isinstance(timeout_s, int) else _DEFAULT_TIMEOUT_S,
            narrowed=any(webhook.get(each) for each in ("namespaceSelector", "objectSelector", "matchConditions")),
            has_bundle=bool(webhook["clientConfig"].get("caBundle")),
        )


def _resources(webhook: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(
        f"{resource}.{group}"
        for rule in webhook.get("rules") or []
        for group in rule.get("apiGroups") or []
        for resource in rule.get("resources") or []
    )


def present(endpoint: Endpoint, bundle: Bundle, limit_s: float) -> EndpointFacts:
    """Connect to an endpoint, first without verification, then as a client that trusts only the bundle."""
    found = _unverified(endpoint, limit_s)
    if found.contact != "served" or not len(bundle):
        return found
    context = ssl.create_default_context(cadata=bundle.pem.decode())
    # Python requires extensions in an authority that the API server, written in Go, does not require.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    try:
        with closing(_session(endpoint, context, limit_s)):
            return found
    except ssl.SSLCertVerificationError as error:
        message = error.verify_message or str(error)
        return EndpointFacts(found.host, found.port, "served", "", found.leaf, message, error.verify_code)
    except OSError as error:
        return EndpointFacts(found.host, found.port, "refused", str(error), found.leaf)


def _unverified(endpoint: Endpoint, limit_s: float) -> EndpointFacts:
    host, port = endpoint.host, endpoint.port
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the certificate is only read, and nothing is sent
    try:
        with closing(_session(endpoint, context, limit_s)) as session:
            leaf = certificate_of(ssl.DER_cert_to_PEM_cert(session.getpeercert(binary_form=True) or b"").encode())
            return EndpointFacts(host, port, "served", "", leaf)
    except socket.gaierror as error:
        return EndpointFacts(host, port, "unresolved", error.strerror or str(error))
    except ssl.SSLError as error:
        return EndpointFacts(host, port, "refused", error.reason or str(error))
    except OSError as error:
        return EndpointFacts(host, port, "unreachable", error.strerror or str(error) or type(error).__name__)


def _session(endpoint: Endpoint, context: ssl.SSLContext, limit_s: float) -> ssl.SSLSocket:
    plain = socket.create_connection((endpoint.host, endpoint.port), timeout=limit_s)
    try:
        return context.wrap_socket(plain, server_hostname=endpoint.host)
    except OSError:
        plain.close()
        raise


def try_policies(client: DoctorClient, namespace: str, monotonic_s: Callable[[], float]) -> DryRunFacts:
    """Create a good policy several times and a bad one once, as dry runs: the API server stores nothing."""
    request = dry_run(create(_POLICIES, namespace, GOOD))
    took_s = []
    for _ in range(TRIES):
        started_s = monotonic_s()
        try:
            policy = client.read(request)
        except ApiError as error:
            return DryRunFacts(None, str(error), error.status, (monotonic_s() - started_s,), bad_tried=False)
        took_s.append(monotonic_s() - started_s)
    problem, warnings = _try_bad_policy(client)
    return DryRunFacts(policy=policy, took_s=tuple(took_s), bad_problem=problem, bad_warnings=warnings)


def _try_bad_policy(client: DoctorClient) -> tuple[str, tuple[str, ...]]:
    try:
        with client.send(dry_run(create(_CLUSTER_POLICIES, "", BAD))) as response:
            lines = response.header("Warning")
            decode(dict[str, Any], read_body(response))
    except ApiError as error:
        return str(error), ()
    return "", tuple(found for line in lines for found in _WARNING.findall(line))
