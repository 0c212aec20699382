"""Gathers facts about an installation. Every question has a timeout, and none changes anything.

A question raises an ``ApiError`` if it cannot be answered. ``observe`` turns the error into an ``Unobserved``.
"""

import re
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from berthmaster.controllers.rbac import AccessRule, rules_of
from berthmaster.deciding.lease_record import SOURCES, sources_record
from berthmaster.kube import requests
from berthmaster.kube.client import APIClient, APIResponse, ask_if_found, read_body
from berthmaster.kube.kinds import KARMADA_CLUSTERS
from berthmaster.kube.lease import LEASES
from berthmaster.kube.listing import Unread, pages
from berthmaster.kube.requests import key_text
from berthmaster.kube.served_types import APIResourceList, openapi_request, schemas_of
from berthmaster.model.binding import SCHEDULED
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, BerthmasterError, FieldError, InputError, UnlistableError
from berthmaster.native_api.connection import UnansweredError, WebClient
from berthmaster.runtime.clock import Clock
from berthmaster_cli.doctor.facts import (
    API_VERSIONS,
    KNOWN,
    AccessFacts,
    BindingFacts,
    DeploymentFacts,
    DryRunFacts,
    EndpointFacts,
    Facts,
    FleetFacts,
    KubeSchedulerFacts,
    LeaseFacts,
    Observed,
    ProbeFacts,
    SecretFacts,
    ServedKinds,
    ServerFacts,
    Setup,
    Unobserved,
    WebhookFacts,
)
from certs.bundle import (
    MUTATING,
    VALIDATING,
    Bundle,
    ConfigurationKind,
    bundle_fields,
    bundles,
    certificate_of,
    key_fits,
)
from certs.ownership import owner_of
from certs.registration import Endpoint
from certs.secrets import read_secret

Value = TypeVar("Value")
_CONFIG_MAPS: Final = requests.Collection.of("v1", "configmaps")
_NODES: Final = requests.Collection.of("v1", "nodes")


class DoctorClient(NamedTuple):
    """Sends requests to one API server, with a timeout, in the name of ``user`` (``Impersonate-User``) if there is one.

    Every method raises an ``ApiError`` if there is no response, or it is an error or of another type.
    """

    client: APIClient
    read_timeout_s: float
    user: str = ""

    def send(self, request: requests.APIRequest) -> APIResponse:
        headers = (*request.headers, *((("Impersonate-User", self.user),) if self.user else ()))
        return self.client.send(request._replace(read_timeout_s=self.read_timeout_s, headers=headers))

    def read(self, request: requests.APIRequest) -> dict[str, Any]:
        return self.read_as(dict[str, Any], request)

    def read_as(self, kind: type[Value], request: requests.APIRequest) -> Value:
        return decode(kind, self.ask(request))

    def ask(self, request: requests.APIRequest) -> bytes:
        with self.send(request) as response:
            return read_body(response)


def dry_run(request: requests.APIRequest) -> requests.APIRequest:
    """Return the same request with ``dryRun=All``, so that the API server stores nothing."""
    return request._replace(query=(*request.query, ("dryRun", "All")))


def decode(kind: type[Value], body: bytes) -> Value:
    """Decode a body as a type."""
    try:
        return decode_json(kind, body)
    except FieldError as error:
        raise ApiError(0, "", f"a response is not readable: {error}") from None


def observe(question: Callable[[], Value], limit_s: float) -> Observed[Value]:
    """Return the answer to a question, or why there is none, after at most ``limit_s`` seconds.

    A server can send single bytes forever, and name resolution has no timeout. A daemon thread therefore asks. If it
    takes too long, it is abandoned and ends with the process.
    """
    answers: list[Observed[Value]] = []
    thread = threading.Thread(target=lambda: answers.append(_answer(question)), name="doctor", daemon=True)
    thread.start()
    thread.join(limit_s)
    return answers[0] if answers else Unobserved(f"there was no response within {limit_s:g} s")


def _answer(question: Callable[[], Value]) -> Observed[Value]:
    try:
        return question()
    except ApiError as error:
        return Unobserved(str(error), error.status)
    except (BerthmasterError, OSError) as error:
        return Unobserved(str(error) or type(error).__name__)


_NUMBER: Final = re.compile(r"\d+")
_ACCESS_REVIEWS: Final = requests.Collection.of("authorization.k8s.io/v1", "selfsubjectaccessreviews")
_USER_REVIEWS: Final = requests.Collection.of("authentication.k8s.io/v1", "selfsubjectreviews")


class _ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""
    major: str = "0"
    minor: str = "0"


def read_server(client: DoctorClient, now: Callable[[], datetime]) -> ServerFacts:
    """Read version and clock.

    The clock is read from the ``Date`` header, which cuts off fractions of a second. So the true time is half a second
    later on average. The server is assumed to have read its clock in the middle between request and response.
    """
    started = now()
    with client.send(requests.APIRequest("/version")) as response:
        dates = response.header("Date")
        version = decode(_ServerVersion, read_body(response))
    took = now() - started
    return ServerFacts(
        version=version.git_version,
        number=(_number(version.major), _number(version.minor)),
        ahead=_ahead(dates, started + took / 2),
        slack=took / 2 + timedelta(seconds=0.5),
    )


def read_kinds(client: DoctorClient, api_version: str) -> ServedKinds:
    """Read what the API server serves of an API version, with schemas if it publishes them."""
    listed = client.read_as(APIResourceList, requests.APIRequest(f"/apis/{api_version}"))
    body = ask_if_found(client, openapi_request(api_version))
    document = decode(dict[str, Any], body) if body is not None else {}
    plurals = frozenset(each.name for each in listed.resources if "/" not in each.name)
    return ServedKinds(plurals, dict(schemas_of(document, api_version)))


def _number(text: str) -> int:
    """Read 31 from ``31+``, as some clouds write it."""
    found = _NUMBER.match(text)
    return int(found[0]) if found else 0


def _ahead(dates: list[str], here: datetime) -> timedelta | None:
    try:
        there = parsedate_to_datetime(dates[0]) if dates else None
    except ValueError:
        return None
    return there.astimezone(UTC) + timedelta(seconds=0.5) - here if there is not None else None


def questions(setup: Setup) -> Iterator[tuple[AccessRule, dict[str, str]]]:
    """Yield a question for each verb and resource that the controllers need: the rule, and the attributes."""
    for rule in rules_of(setup.controllers, estimators=setup.estimators, moves=setup.moves):
        for listed in rule.resources:
            resource, _, subresource = listed.partition("/")
            for verb in rule.verbs:
                yield rule, {
                    "group": rule.group, "resource": resource, "verb": verb,
                    **({"subresource": subresource} if subresource else {}),
                    **({"namespace": setup.lease[0]} if rule.scope == "lease" else {}),
                    **({"namespace": setup.karmada_namespace} if rule.scope == "estimators" else {}),
                    **({"name": setup.lease[1]} if rule.named else {}),
                }  # fmt: skip


def permission(attributes: Mapping[str, str]) -> str:
    """Return what is asked: ``patch resourcebindings/status.work.karmada.io``."""
    resource = "/".join(filter(None, (attributes["resource"], attributes.get("subresource"))))
    where = f" in {attributes['namespace']}" if "namespace" in attributes else ""
    return f"{attributes['verb']} {'.'.join(filter(None, (resource, attributes['group'])))}{where}"


def read_access(client: DoctorClient, setup: Setup) -> AccessFacts:
    """Ask which permissions of the controllers the client's user has."""
    denied, asked = [], list(questions(setup))
    for rule, attributes in asked:
        spec = {"resourceAttributes": attributes}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
        if not (client.read(requests.create(_ACCESS_REVIEWS, "", review)).get("status") or {}).get("allowed"):
            denied.append((rule, permission(attributes)))
    try:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        status = client.read(requests.create(_USER_REVIEWS, "", review)).get("status") or {}
    except ApiError:  # before Kubernetes 1.28
        status = {}
    user: dict[str, Any] = status.get("userInfo") or {}
    groups = tuple(map(str, user.get("groups") or ()))
    return AccessFacts(str(user.get("username") or ""), groups, denied, len(asked))


MAX_LISTED: Final = 10_000
"""The most objects of a collection that are read."""
CLUSTERS: Final = KARMADA_CLUSTERS.collection
BINDINGS: Final = (requests.RESOURCE_BINDINGS, requests.CLUSTER_RESOURCE_BINDINGS)
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


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_name: str = ""
    holder_identity: str | None = None
    renew_time: datetime | None = None
    lease_duration_seconds: int | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    conditions: tuple[_Condition, ...] = ()
    resource_summary: dict[str, Any] | None = None
    scheduler_observed_generation: int = 0


class _Item(msgspec.Struct, frozen=True):
    """What is read of a cluster, a binding or a lease. The strict types of the model would refuse a damaged object."""

    metadata: _ListedMetadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _List(msgspec.Struct, frozen=True):
    items: list[_Item] = []


def _lease(item: _Item) -> LeaseFacts:
    metadata, spec = item.metadata, item.spec
    holder, duration_s = spec.holder_identity or "", spec.lease_duration_seconds or 0
    sources = sources_record(metadata.annotations.get(SOURCES))
    return LeaseFacts(metadata.namespace, metadata.name, holder, spec.renew_time, duration_s, sources)


def read_clusters(client: DoctorClient) -> FleetFacts:
    """List the clusters."""
    found, unread, complete = _listed(client, CLUSTERS)
    ready = {
        each.metadata.name
        for each in found
        if any(condition.type == "Ready" and condition.status == "True" for condition in each.status.conditions)
    }
    measured = {each.metadata.name for each in found if (each.status.resource_summary or {}).get("allocatable")}
    names = [each.metadata.name for each in found]
    not_ready, unmeasured = (tuple(name for name in names if name not in known) for known in (ready, measured))
    return FleetFacts(len(found), not_ready, unmeasured, complete, tuple(unread))


def read_bindings(client: DoctorClient, ours: str, now: datetime) -> BindingFacts:
    """List the bindings of both kinds."""
    by_scheduler: Counter[str] = Counter()
    stale, unschedulable, unread, complete = [], [], list[str](), True
    for collection in BINDINGS:
        found, not_read, whole = _listed(client, collection)
        complete = complete and whole
        unread += not_read
        by_scheduler.update(each.spec.scheduler_name for each in found)
        for each in found:
            if each.spec.scheduler_name != ours or each.metadata.deletion_timestamp:
                continue
            if _is_stale(each, now):
                stale.append(each.metadata.path)
            elif (reason := _failure(each)) is not None:
                unschedulable.append((each.metadata.path, reason))
    return BindingFacts(dict(by_scheduler), tuple(stale), tuple(unschedulable), complete, tuple(unread))


def _item(document: bytes) -> _Item | None:
    """Decode an object; None if a field that is read has another type."""
    try:
        return decode_json(_Item, document)
    except FieldError:
        return None


class _Listing(NamedTuple):
    """Objects of a collection, the names of those that could not be read, and whether there are no others."""

    items: list[_Item]
    unread: list[str]
    complete: bool


def _listed(client: DoctorClient, collection: requests.Collection) -> _Listing:
    items, unread = list[_Item](), list[str]()
    try:
        for part in pages(client.ask, collection, most=MAX_LISTED):
            for key, content in part.objects:
                item = None if isinstance(content, Unread) else _item(bytes(content))
                if item is None:
                    unread.append(key_text(key))
                else:
                    items.append(item)
    except UnlistableError:
        return _Listing(items, unread, complete=False)
    return _Listing(items, unread, complete=True)


def _is_stale(binding: _Item, now: datetime) -> bool:
    """Whether a binding that is not new changed after the scheduler observed it."""
    created = binding.metadata.creation_timestamp
    settled = created is None or now - created > _SETTLED
    return settled and binding.metadata.generation > binding.status.scheduler_observed_generation


def _failure(binding: _Item) -> str | None:
    """The reason why a binding could not be scheduled; None if it was."""
    for each in binding.status.conditions:
        if each.type == SCHEDULED and each.status != "True":
            return each.reason or "Unknown"
    return None


def read_lease(client: DoctorClient, namespace: str, name: str) -> LeaseFacts | None:
    """Read a lease; None if it does not exist."""
    body = ask_if_found(client, requests.get(LEASES, (namespace, name)))
    return _lease(decode(_Item, body)) if body is not None else None


def read_leases(client: DoctorClient, name: str) -> list[LeaseFacts]:
    """List the leases of a name in all namespaces."""
    query = (("fieldSelector", f"metadata.name={name}"), ("limit", str(_MAX_LEASES)))
    return list(map(_lease, client.read_as(_List, requests.APIRequest(LEASES.path, query)).items))


REVIEWED_GROUPS: Final = frozenset({"policy.karmada.io", "apps.karmada.io"})
"""The API groups that Berthmaster reviews. Webhooks for others are ignored."""
TRIES: Final = 5
_DEFAULT_TIMEOUT_S: Final = 10.0  # the API server's
_POLICY_API: Final = "policy.karmada.io/v1alpha1"
_POLICIES: Final = requests.Collection.of(_POLICY_API, "propagationpolicies")
_CLUSTER_POLICIES: Final = requests.Collection.of(_POLICY_API, "clusterpropagationpolicies")
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')  # RFC 7234, section 5.5


def read_webhooks(client: DoctorClient) -> list[WebhookFacts]:
    """List the webhooks of Berthmaster, and those of others for the same API groups."""
    found: list[WebhookFacts] = []
    for kind in (MUTATING, VALIDATING):
        for item in client.read(requests.APIRequest(kind.collection.path)).get("items") or []:
            for each in _webhooks(kind, item):
                groups = {name.partition(".")[2] for name in each.resources}
                found += [each] if each.ours or REVIEWED_GROUPS & groups else []
    return found


def _webhooks(kind: ConfigurationKind, item: Mapping[str, Any]) -> Iterator[WebhookFacts]:
    configuration = str((item.get("metadata") or {}).get("name"))
    try:
        called = list(zip(item.get("webhooks") or [], bundle_fields(kind, item), bundles(kind, item), strict=True))
    except InputError:
        return
    for webhook, field, bundle in called:
        timeout_s, rules = webhook.get("timeoutSeconds"), webhook.get("rules") or []
        yield WebhookFacts(
            kind=kind.kind,
            configuration=configuration,
            name=str(webhook.get("name")),
            url=field.url,
            is_service="service" in webhook["clientConfig"],
            bundle=bundle,
            resources=frozenset(
                f"{resource}.{group}"
                for rule in rules
                for group in rule.get("apiGroups") or []
                for resource in rule.get("resources") or []
            ),
            fails_closed=webhook.get("failurePolicy") != "Ignore",
            timeout_s=float(timeout_s) if isinstance(timeout_s, int) else _DEFAULT_TIMEOUT_S,
            narrowed=any(webhook.get(each) for each in ("namespaceSelector", "objectSelector", "matchConditions")),
            has_bundle=bool(webhook["clientConfig"].get("caBundle")),
            registered_by=owner_of(item),
        )


def read_endpoint(endpoint: Endpoint, bundle: Bundle, limit_s: float) -> EndpointFacts:
    """Connect to an endpoint, first without verification, then as a client that trusts only the bundle."""
    host, port = endpoint.host, endpoint.port
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the certificate is only read, and nothing is sent
    try:
        with closing(_session(endpoint, context, limit_s)) as session:
            leaf = certificate_of(ssl.DER_cert_to_PEM_cert(session.getpeercert(binary_form=True) or b"").encode())
    except socket.gaierror as error:
        return EndpointFacts(host, port, "unresolved", error.strerror or str(error))
    except ssl.SSLError as error:
        return EndpointFacts(host, port, "refused", error.reason or str(error))
    except OSError as error:
        return EndpointFacts(host, port, "unreachable", error.strerror or str(error) or type(error).__name__)
    found = EndpointFacts(host, port, "served", "", leaf)
    if not len(bundle):
        return found
    context = ssl.create_default_context(cadata=bundle.pem.decode())
    # Python requires extensions in an authority that the API server, written in Go, does not require.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    try:
        with closing(_session(endpoint, context, limit_s)):
            return found
    except ssl.SSLCertVerificationError as error:
        return replace(found, verify_error=error.verify_message or str(error), verify_code=error.verify_code)
    except OSError as error:
        return replace(found, contact="refused", problem=str(error))


def _session(endpoint: Endpoint, context: ssl.SSLContext, limit_s: float) -> ssl.SSLSocket:
    plain = socket.create_connection((endpoint.host, endpoint.port), timeout=limit_s)
    try:
        return context.wrap_socket(plain, server_hostname=endpoint.host)
    except OSError:
        plain.close()
        raise


def try_policies(client: DoctorClient, namespace: str, monotonic_s: Callable[[], float]) -> DryRunFacts:
    """Create a good policy several times and a bad one once, as dry runs: the API server stores nothing."""
    request = dry_run(requests.create(_POLICIES, namespace, KNOWN.trials["good"]))
    took_s = []
    for _ in range(TRIES):
        started_s = monotonic_s()
        try:
            policy = client.read(request)
        except ApiError as error:
            return DryRunFacts(None, str(error), error.status, (monotonic_s() - started_s,), bad_tried=False)
        took_s.append(monotonic_s() - started_s)
    problem, warnings = "", list[str]()
    try:
        with client.send(dry_run(requests.create(_CLUSTER_POLICIES, "", KNOWN.trials["bad"]))) as response:
            warnings = [found for line in response.header("Warning") for found in _WARNING.findall(line)]
            decode(dict[str, Any], read_body(response))
    except ApiError as error:
        problem, warnings = str(error), []
    return DryRunFacts(policy=policy, took_s=tuple(took_s), bad_problem=problem, bad_warnings=tuple(warnings))


class _ManagedResource(msgspec.Struct, frozen=True):
    name: str = ""


class _SchedulerExtender(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of ``extenders`` of a ``KubeSchedulerConfiguration``."""

    managed_resources: tuple[_ManagedResource, ...] = ()
    ignorable: bool = False


class _SchedulerConfiguration(msgspec.Struct, frozen=True):
    extenders: tuple[_SchedulerExtender, ...] = ()


DEPLOYMENTS: Final = requests.Collection.of("apps/v1", "deployments")
_KARMADA: Final = frozenset({"karmada-scheduler", "karmada-controller-manager"})
_OURS: Final = frozenset({"webhook", "controllers", "extender", "console"})
_MAX_DEPLOYMENTS: Final = 500
_MAX_PROBE_BYTES: Final = 64 * 1024


def read_deployments(client: DoctorClient, setup: Setup) -> list[DeploymentFacts]:
    """List the Deployments of Karmada and of the release."""
    found: dict[tuple[str, str], DeploymentFacts] = {}
    for namespace in dict.fromkeys((setup.karmada_namespace, setup.namespace)):
        request = requests.APIRequest(DEPLOYMENTS.within(namespace), (("limit", str(_MAX_DEPLOYMENTS)),))
        for item in client.read(request).get("items") or []:
            for deployment in _deployments(item):
                found[namespace, f"{deployment.name}/{deployment.component}"] = deployment
    return list(found.values())


def read_serving_secret(client: DoctorClient, setup: Setup) -> SecretFacts | None:
    """Read the Secret that the webhook serves from; None if it does not exist."""
    name = f"{setup.release}-webhook-tls"
    secret = read_secret(client, (setup.namespace, name))
    if secret is None:
        return None
    leaf = secret.leaf.certificate
    return SecretFacts(name, leaf, leaf is not None and key_fits(leaf, secret.leaf.key_pem))


def _deployments(item: Mapping[str, Any]) -> Iterator[DeploymentFacts]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    for container in _pod_spec(spec).get("containers") or []:
        arguments = tuple(map(str, [*(container.get("command") or ()), *(container.get("args") or ())]))
        component = _component(arguments)
        if component:
            yield DeploymentFacts(
                name=str((item.get("metadata") or {}).get("name")),
                component=component,
                arguments=arguments,
                wanted=int(spec.get("replicas", 1)),
                ready=int(status.get("readyReplicas") or 0),
                scheduler=str(_pod_spec(spec).get("schedulerName") or ""),
            )


def _pod_spec(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    return (deployment.get("template") or {}).get("spec") or {}


def read_kube_scheduler(
    client: DoctorClient, setup: Setup, extender: DeploymentFacts | None
) -> KubeSchedulerFacts | None:
    """Read the stanza that the chart renders for kube-scheduler; None without one."""
    body = ask_if_found(client, requests.get(_CONFIG_MAPS, (setup.namespace, f"{setup.release}-kube-scheduler")))
    if body is None:
        return None
    text = (decode(dict[str, Any], body).get("data") or {}).get("extenders.yaml") or ""
    try:
        configuration = msgspec.yaml.decode(text, type=_SchedulerConfiguration)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ApiError(0, "", f"its stanza is not readable: {error}") from None
    stanza = configuration.extenders[0] if configuration.extenders else _SchedulerExtender()
    return KubeSchedulerFacts(
        managed=tuple(each.name for each in stanza.managed_resources),
        ignorable=stanza.ignorable,
        own_scheduler=extender.scheduler if extender is not None else "",
        members=extender.option("kube-scheduler-members") if extender is not None else "",
    )


def read_has_nodes(client: DoctorClient, selector: str) -> bool:
    """Return whether a node has the labels of a selector."""
    request = requests.APIRequest(_NODES.path, (("labelSelector", selector), ("limit", "1")))
    return bool(client.read(request).get("items"))


def _component(arguments: tuple[str, ...]) -> str:
    """Return the component that a container runs, by its program. Our image needs a subcommand only."""
    words = [PurePosixPath(each).name for each in arguments[:2]]
    theirs = next((each for each in words if each in _KARMADA), "")
    own = next((each for each in words if each != "berthmaster"), "")
    return theirs or (own if own in _OURS else "")


def ask_probe(url: str, limit_s: float) -> ProbeFacts:
    """Ask ``/readyz`` of a server. ``url`` is ``http://HOST[:PORT]``. A path in it replaces ``/readyz``."""
    try:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            return ProbeFacts(url, 0, "the URL is not like http://127.0.0.1:9080")
        path = parts.path if parts.path not in {"", "/"} else "/readyz"
        with WebClient(url, limit_s) as client:
            answer = client.ask("GET", path, most_bytes=_MAX_PROBE_BYTES)
        return ProbeFacts(url, answer.status, " ".join(answer.content.decode(errors="replace").split())[:200])
    except UnansweredError as error:
        return ProbeFacts(url, 0, error.problem)
    except ValueError as error:
        return ProbeFacts(url, 0, str(error))


_KARMADA_LEASE: Final = "karmada-scheduler"
_MAX_ENDPOINTS: Final = 8
"""One is usual. Each takes up to its timeout."""
_LONG: Final = 4
"""The number of timeouts that a question with many responses gets."""


@dataclass(frozen=True)
class Collector:
    """Collects facts from the target, which has the policies, and the host, which has Deployments and Secrets."""

    target: APIClient
    host: APIClient | None
    setup: Setup
    groups: frozenset[str]
    clock: Clock
    limit_s: float
    user: str = ""
    probes: tuple[str, ...] = ()

    def collect(self) -> Facts:
        """Collect all facts. If the target does not respond, only that."""
        setup, target = self.setup, DoctorClient(self.target, self.limit_s)
        server = self._observe(partial(read_server, target, self.clock.now))
        now = self.clock.now()
        if isinstance(server, Unobserved):
            return Facts(setup, now, server)
        if server.ahead is not None and abs(server.ahead) > server.slack:  # it is measurable
            now += server.ahead
        registered = self._if("registration certificates admission conflicts", partial(read_webhooks, target))
        # Assigned first, because mypy would widen these types to accept None inside the call.
        secret = self._on_host("certificates", lambda client: read_serving_secret(client, setup))
        lease = self._if("controllers fleet", partial(read_lease, target, *setup.lease))
        karmada_lease = self._if("fleet", partial(read_lease, target, setup.karmada_namespace, _KARMADA_LEASE))
        host = None
        if self.host is not None and self.host is not self.target:
            host = self._observe(partial(read_server, DoctorClient(self.host, self.limit_s), self.clock.now))
        user = target._replace(user=self.user)
        versions = API_VERSIONS if "definitions" in self.groups else ()
        on_host = "conflicts registration fleet probes kube-scheduler"
        deployments = self._on_host(on_host, lambda client: read_deployments(client, setup))
        return Facts(
            setup=setup,
            now=now,
            target=server,
            host=host,
            kinds={each: self._observe(partial(read_kinds, target, each)) for each in versions},
            webhooks=registered,
            endpoints=self._endpoints(registered),
            secret=secret,
            dry_run=self._if(
                "certificates admission",
                partial(try_policies, target, setup.trial_namespace, self.clock.monotonic_s),
                times=TRIES + 1,
            ),
            access=self._if("rights", partial(read_access, user, setup), times=_LONG),
            lease=lease,
            other_leases=self._if("conflicts", partial(read_leases, target, setup.lease[1])),
            karmada_lease=karmada_lease,
            fleet=self._if("fleet", partial(read_clusters, target), times=_LONG),
            bindings=self._if("fleet", partial(read_bindings, target, setup.scheduler_name, now), times=_LONG),
            deployments=deployments,
            kube_scheduler=self._kube_scheduler(deployments),
            probes=[ask_probe(url, self.limit_s) for url in self.probes],
        )

    def _observe(self, question: Callable[[], Value], times: int = 1) -> Observed[Value]:
        return observe(question, self.limit_s * times)

    def _if(self, groups: str, question: Callable[[], Value], times: int = 1) -> Observed[Value] | None:
        """Ask a question if one of the groups is checked."""
        return self._observe(question, times) if self.groups & {*groups.split()} else None

    def _on_host(self, groups: str, question: Callable[[DoctorClient], Value]) -> Observed[Value] | None:
        if self.host is None:
            return None
        return self._if(groups, partial(question, DoctorClient(self.host, self.limit_s)))

    def _kube_scheduler(
        self, deployments: Observed[Sequence[DeploymentFacts]] | None
    ) -> Observed[KubeSchedulerFacts | None]:
        running = [] if deployments is None or isinstance(deployments, Unobserved) else deployments
        extender = next((each for each in running if each.component == "extender"), None)
        found = self._on_host("kube-scheduler", lambda client: read_kube_scheduler(client, self.setup, extender))
        if found is None or isinstance(found, Unobserved) or not found.members:
            return found
        client = self.target if extender is not None and extender.option("kubeconfig") else self.host or self.target
        nodes = self._observe(partial(read_has_nodes, DoctorClient(client, self.limit_s), found.members))
        return replace(found, member_nodes=nodes)

    def _endpoints(self, registered: Observed[Sequence[WebhookFacts]] | None) -> list[EndpointFacts]:
        if registered is None or isinstance(registered, Unobserved) or "certificates" not in self.groups:
            return []
        wanted: dict[tuple[str, int, Bundle], Endpoint] = {}
        for each in registered:
            if each.ours and (endpoint := each.endpoint) is not None:  # a finding reports an invalid URL
                wanted.setdefault((endpoint.host, endpoint.port, each.bundle), endpoint)
        found = []
        for (_, _, bundle), endpoint in [*wanted.items()][:_MAX_ENDPOINTS]:
            facts = self._observe(partial(read_endpoint, endpoint, bundle, self.limit_s), times=2)
            if isinstance(facts, Unobserved):
                facts = EndpointFacts(endpoint.host, endpoint.port, "unreachable", facts.problem)
            found.append(facts)
        return found
