"""The facts about an installation, as values. Judges need nothing else and cannot ask.

``facts.yaml`` lists the kinds and fields of custom resources that the code reads or writes. Older releases of Karmada
lack some of them. Each of these names the feature that needs it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from cryptography import x509

from berthmaster.controllers.rbac import AccessRule
from berthmaster.deciding.lease_record import SourcesRecord
from berthmaster.model.errors import InputError
from certs.bundle import EMPTY, Bundle
from certs.ownership import installation
from certs.registration import Endpoint, endpoint_of

SCHEDULER_NAME: Final = "berthmaster"
LEASE_NAME: Final = "berthmaster-controllers"
KARMADA_NAMESPACE: Final = "karmada-system"
SLACK: Final = timedelta(seconds=5)
"""How far the clocks of the holder, the API server and this machine may differ without a finding."""
SINCE: Final = {"spec.placement.clusterAffinities.overflowAffinities": "1.18"}
"""The first release of Karmada with a field that not every supported release has, by the field's path."""


@dataclass(frozen=True, slots=True)
class Unobserved:
    """Something that could not be observed. ``status`` is the HTTP status of a refusal; 0 if there was no response."""

    problem: str
    status: int = 0

    @property
    def forbidden(self) -> bool:
        """Whether this user has no permission to observe it."""
        return self.status in {401, 403}


T = TypeVar("T")
Observed: TypeAlias = T | Unobserved
"""A value, or the reason why it could not be observed."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The expected installation, from the options. ``target`` and ``host`` are ``kubectl`` with what reaches each."""

    target: str = "kubectl"
    host: str = "kubectl"
    single: bool = True
    namespace: str = KARMADA_NAMESPACE
    release: str = "berthmaster"
    karmada_namespace: str = KARMADA_NAMESPACE
    scheduler_name: str = SCHEDULER_NAME
    other_schedulers: tuple[str, ...] = ()
    lease: tuple[str, str] = (KARMADA_NAMESPACE, LEASE_NAME)
    controllers: tuple[str, ...] = ("binding-scheduler",)
    trial_namespace: str = "default"
    estimators: bool = False
    moves: bool = False

    @property
    def installation(self) -> str:
        """The name of the installation on the objects that it registers."""
        return installation(self.namespace, self.release)

    @property
    def in_release(self) -> str:
        """``kubectl`` in the namespace of the release on the host."""
        return f"{self.host} -n {self.namespace}"

    @property
    def in_karmada(self) -> str:
        """``kubectl`` in the namespace of Karmada's components on the host."""
        return f"{self.host} -n {self.karmada_namespace}"

    @property
    def pods(self) -> str:
        """The ``kubectl`` command that shows the controllers' pods."""
        return f"{self.in_release} get pods -l app.kubernetes.io/component=controllers"

    @property
    def logs(self) -> str:
        """The ``kubectl`` command that shows the controllers' logs."""
        return f"{self.in_release} logs -l app.kubernetes.io/component=controllers --tail=50"

    @property
    def upgrade(self) -> str:
        """The ``helm`` command that changes values of the release."""
        return f"helm upgrade --install {self.release} charts/berthmaster -n {self.namespace} --reset-then-reuse-values"


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """An API server that responded. Its clock is ``ahead`` of the local one, give or take ``slack``."""

    version: str
    number: tuple[int, int]
    ahead: timedelta | None
    slack: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class ServedKinds:
    """What an API server serves of one API version: the schemas, without references, lack some kinds."""

    plurals: frozenset[str]
    schemas: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class WebhookFacts:
    """A webhook that an API server calls. A Service is given by its DNS name, resources as ``RESOURCE.GROUP``."""

    kind: str
    configuration: str
    name: str
    url: str
    is_service: bool = False
    bundle: Bundle = EMPTY
    resources: frozenset[str] = frozenset()
    fails_closed: bool = True
    timeout_s: float = 10.0
    narrowed: bool = False
    has_bundle: bool = True  # whether caBundle has any content, readable or not
    registered_by: str = ""  # the installation that registered the configuration

    @property
    def ours(self) -> bool:
        """Whether it is a webhook of Berthmaster, by the suffix of its name."""
        return self.name.endswith(".berthmaster.io")

    @property
    def path(self) -> str:
        """The path of the URL, without parameters."""
        return "/" + self.url.removeprefix("https://").partition("/")[2].partition("?")[0]

    @property
    def endpoint(self) -> Endpoint | None:
        """The address in the URL; None if the URL is invalid."""
        try:
            return endpoint_of(self.url)
        except InputError:
            return None

    @property
    def full_name(self) -> str:
        return f"{self.configuration}/{self.name}"


Contact = Literal["served", "unresolved", "unreachable", "refused"]
"""A TLS session; a name that does not resolve; no connection; no TLS session even without verification."""


@dataclass(frozen=True, slots=True)
class EndpointFacts:
    """What a TLS client on this machine gets from a webhook's endpoint."""

    host: str
    port: int
    contact: Contact
    problem: str = ""
    leaf: x509.Certificate | None = None
    verify_error: str = ""  # why a client that trusts the bundle rejects the session
    verify_code: int = 0


@dataclass(frozen=True, slots=True)
class SecretFacts:
    """A serving Secret on the host. ``leaf`` is None if there is no readable certificate."""

    name: str
    leaf: x509.Certificate | None
    key_fits: bool


@dataclass(frozen=True, slots=True)
class DryRunFacts:
    """The results of creating policies with ``dryRun=All``: a good one, and one that breaks a rule of the webhook."""

    policy: Mapping[str, Any] | None  # as it would have been stored; None if it was refused
    problem: str = ""
    status: int = 0  # 0 if there was no response
    took_s: tuple[float, ...] = ()
    bad_problem: str = ""
    bad_warnings: tuple[str, ...] = ()
    bad_tried: bool = True


@dataclass(frozen=True, slots=True)
class AccessFacts:
    """The permissions of a user. ``denied`` has the rule and ``VERB RESOURCE`` of each permission that is missing."""

    user: str
    groups: tuple[str, ...]
    denied: Sequence[tuple[AccessRule, str]]
    checked: int


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    """A lease. It has no holder after a release. ``renewed`` is by the clock of the holder."""

    namespace: str
    name: str
    holder: str
    renewed: datetime | None
    duration_s: int
    sources: SourcesRecord | None = None


@dataclass(frozen=True, slots=True)
class FleetFacts:
    """The member clusters, with the names of those that report no resources.

    Attributes:
        complete: whether all were listed.
        unread: the names of those that were listed and cannot be read.
    """

    total: int
    not_ready: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()
    complete: bool = True
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BindingFacts:
    """The bindings of both kinds. ``stale`` are ours whose last change the scheduler has not observed for long."""

    by_scheduler: Mapping[str, int] = field(default_factory=dict)
    stale: tuple[str, ...] = ()
    unschedulable: tuple[tuple[str, str], ...] = ()
    complete: bool = True
    unread: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return sum(self.by_scheduler.values())


@dataclass(frozen=True, slots=True)
class DeploymentFacts:
    """A Deployment on the host that runs a component of Karmada or Berthmaster, such as ``karmada-scheduler``."""

    name: str
    component: str
    arguments: tuple[str, ...]
    wanted: int = 1
    ready: int = 1
    scheduler: str = ""  # that schedules its pods; empty for the cluster's default

    def option(self, name: str, default: str = "") -> str:
        """Return the last value of an option, written as ``--name=value`` or ``--name value``."""
        value = default
        for place, argument in enumerate(self.arguments):
            if argument == f"--{name}":
                value = self.arguments[place + 1] if place + 1 < len(self.arguments) else ""
            elif argument.startswith(f"--{name}="):
                value = argument.partition("=")[2]
        return value


@dataclass(frozen=True, slots=True)
class KubeSchedulerFacts:
    """The stanza of the chart for kube-scheduler, and the extender that it calls.

    ``managed`` are the resources of ``managedResources``; ``member_nodes`` is whether a node matches ``members``.
    """

    managed: tuple[str, ...] = ()
    ignorable: bool = False
    own_scheduler: str = ""
    members: str = ""
    member_nodes: Observed[bool] = False


@dataclass(frozen=True, slots=True)
class ProbeFacts:
    """The HTTP status and text of a probe endpoint; 0 and the reason if there was no response."""

    url: str
    status: int
    message: str


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts. None means that a fact was not asked for; for a Secret or a lease also that it does not exist."""

    setup: Setup
    now: datetime  # by the clock of the target if it is known
    target: Observed[ServerFacts]
    host: Observed[ServerFacts] | None = None
    kinds: Mapping[str, Observed[ServedKinds]] = field(default_factory=dict)
    webhooks: Observed[Sequence[WebhookFacts]] | None = None
    endpoints: Sequence[EndpointFacts] = ()
    secret: Observed[SecretFacts | None] = None
    dry_run: Observed[DryRunFacts] | None = None
    access: Observed[AccessFacts] | None = None
    lease: Observed[LeaseFacts | None] = None
    other_leases: Observed[Sequence[LeaseFacts]] | None = None
    karmada_lease: Observed[LeaseFacts | None] = None
    fleet: Observed[FleetFacts] | None = None
    bindings: Observed[BindingFacts] | None = None
    deployments: Observed[Sequence[DeploymentFacts]] | None = None
    kube_scheduler: Observed[KubeSchedulerFacts | None] = None
    probes: Sequence[ProbeFacts] = ()

    @property
    def known_deployments(self) -> Sequence[DeploymentFacts]:
        """The Deployments on the host; empty if they could not be observed."""
        return () if self.deployments is None or isinstance(self.deployments, Unobserved) else self.deployments

    def running(self, *components: str) -> list[DeploymentFacts]:
        """Return the Deployments on the host that run one of the components."""
        return [each for each in self.known_deployments if each.component in components]

    @property
    def ours(self) -> list[WebhookFacts]:
        """The webhooks of Berthmaster; empty if they could not be observed."""
        known = () if self.webhooks is None or isinstance(self.webhooks, Unobserved) else self.webhooks
        return [each for each in known if each.ours]

    def is_live(self, lease: LeaseFacts | None) -> bool:
        """Whether a process holds a lease and has renewed it in time."""
        if lease is None or not lease.holder or lease.renewed is None:
            return False
        return self.now - lease.renewed <= timedelta(seconds=lease.duration_s) + SLACK


class RequiredKind(msgspec.Struct, frozen=True, rename="camel"):
    """A kind of object. ``fields`` has the feature that needs a field by its path; empty if everything needs it."""

    api_version: str
    kind: str
    plural: str
    fields: Mapping[str, str]
    feature: str = ""


class _KnownFacts(msgspec.Struct, frozen=True):
    """The content of ``facts.yaml``. ``trials`` are a good and a bad policy, for dry runs."""

    kinds: tuple[RequiredKind, ...]
    trials: Mapping[str, Mapping[str, Any]]


KNOWN: Final = msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_bytes(), type=_KnownFacts)
API_VERSIONS: Final = tuple(dict.fromkeys(each.api_version for each in KNOWN.kinds))
