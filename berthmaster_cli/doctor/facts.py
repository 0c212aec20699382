"""What was seen of a set-up, as values: all that a judgement needs, and nothing that could ask again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias, TypeVar

from cryptography import x509

from berthmaster.controllers.rbac import Rule
from certs.bundle import EMPTY, Bundle

SCHEDULER_NAME: Final = "berthmaster"
LEASE_NAME: Final = "berthmaster-controllers"
KARMADA_NAMESPACE: Final = "karmada-system"


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that could not be seen.

    Attributes:
        problem: why, in a line.
        status: the HTTP status of a refusal; 0 if there was no answer.
    """

    problem: str
    status: int = 0

    @property
    def forbidden(self) -> bool:
        """Whether whoever asks has no right to see it."""
        return self.status in {401, 403}


T = TypeVar("T")
Seen: TypeAlias = T | Unknown
"""A value, or why it could not be seen."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What the set-up is meant to be: the doctor's options.

    Attributes:
        target, host: ``kubectl`` with the options that reach each, to begin a remedy with.
        single: whether they are the same cluster.
        namespace: of the release on the host.
        release: what all its objects are called, or begin with.
        karmada_namespace: where Karmada's components run on the host.
        scheduler_name: ours.
        other_schedulers: further names that somebody is known to serve.
        lease: namespace and name of the controllers' lease.
        controllers: which of them are meant to run.
        trial_namespace: where a policy is created on trial.
        estimators: whether the controllers are meant to ask Karmada's scheduler estimators.
    """

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

    @property
    def in_release(self) -> str:
        """``kubectl`` in the release's namespace on the host."""
        return f"{self.host} -n {self.namespace}"

    @property
    def in_karmada(self) -> str:
        """``kubectl`` in the namespace of Karmada's components on the host."""
        return f"{self.host} -n {self.karmada_namespace}"

    @property
    def controllers_pods(self) -> str:
        """How ``kubectl`` selects the controllers' pods."""
        return "-l app.kubernetes.io/component=controllers"

    @property
    def upgrade(self) -> str:
        """``helm`` as it changes some values of the release."""
        return f"helm upgrade --install {self.release} charts/berthmaster -n {self.namespace} --reuse-values"


@dataclass(frozen=True, slots=True)
class Server:
    """An API server that answered.

    Attributes:
        version: what it says it is, as ``v1.34.1``.
        number: the same as numbers.
        ahead: how far its clock is ahead of the local one, of which no more than whole seconds are seen.
        slack: how wrong that may be, because the answer was under way for as long.
    """

    version: str
    number: tuple[int, int]
    ahead: timedelta | None
    slack: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Kinds:
    """What an API version serves.

    Attributes:
        plurals: the resources.
        schemas: by kind, its schema with all references resolved; a kind may be missing.
    """

    plurals: frozenset[str]
    schemas: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook that an API server calls.

    Attributes:
        kind, configuration: the object that registers it.
        name: its name, which refusals carry.
        url: whom it calls; a Service by its DNS name.
        is_service: whether it is a reference to a Service.
        bundle: whom it trusts.
        resources: ``RESOURCE.GROUP`` of what it is asked about.
        fails_closed: whether writes are refused while it is away.
        timeout_s: how long its answer may take.
        narrowed: whether selectors or conditions keep some objects from it.
        has_bundle: whether there is anything in ``caBundle``, readable or not.
    """

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
    has_bundle: bool = True

    @property
    def ours(self) -> bool:
        """Whether it is Berthmaster's: the suffix of its name is."""
        return self.name.endswith(".berthmaster.io")

    @property
    def path(self) -> str:
        """The path of its URL, without parameters."""
        return "/" + self.url.removeprefix("https://").partition("/")[2].partition("?")[0]


Contact = Literal["served", "unresolved", "unreachable", "refused"]


@dataclass(frozen=True, slots=True)
class Served:
    """What somebody who calls a webhook from here gets to see.

    Attributes:
        host, port: where.
        contact: ``served``: a TLS session; ``unresolved``: no such name; ``unreachable``: no connection;
            ``refused``: a connection, and no TLS session, not even without any check.
        problem: why not, in a line.
        leaf: the certificate.
        mistrust: why a client that trusts the bundle refuses the session, as OpenSSL says it; empty if it does not.
        mistrust_code: OpenSSL's number of that.
    """

    host: str
    port: int
    contact: Contact
    problem: str = ""
    leaf: x509.Certificate | None = None
    mistrust: str = ""
    mistrust_code: int = 0


@dataclass(frozen=True, slots=True)
class Stored:
    """A serving Secret on the host.

    Attributes:
        name: its name.
        leaf: its certificate; None if there is no readable one.
        key_fits: whether its key is the certificate's.
    """

    name: str
    leaf: x509.Certificate | None
    key_fits: bool


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of objects that were created on trial (``dryRun=All``).

    Attributes:
        stored: the policy as it would have been stored; None if it was refused.
        problem: why it was refused.
        status: the HTTP status of that; 0 if there was no answer.
        took_s: how long each try took.
        bad_problem: why one that breaks a rule of the webhook's was refused; empty if it was not.
        bad_warnings: what was said about it if it was not.
        bad_tried: whether it was tried.
    """

    stored: Mapping[str, Any] | None
    problem: str = ""
    status: int = 0
    took_s: tuple[float, ...] = ()
    bad_problem: str = ""
    bad_warnings: tuple[str, ...] = ()
    bad_tried: bool = True


@dataclass(frozen=True, slots=True)
class Rights:
    """What somebody may do.

    Attributes:
        user: the name, as the API server understood it; empty if it does not tell.
        groups: theirs.
        denied: for each rule, ``VERB RESOURCE`` of what may not be done, and where.
        checked: how many questions were asked.
    """

    user: str
    groups: tuple[str, ...]
    denied: Sequence[tuple[Rule, str]]
    checked: int


@dataclass(frozen=True, slots=True)
class LeaseSeen:
    """A lease.

    Attributes:
        namespace, name: where it is.
        holder: empty for nobody.
        renewed: when it was renewed last, by the holder's clock; None if it does not say.
        duration_s: how long it lasts without.
    """

    namespace: str
    name: str
    holder: str
    renewed: datetime | None
    duration_s: int


@dataclass(frozen=True, slots=True)
class Fleet:
    """The member clusters.

    Attributes:
        total: how many.
        not_ready: the names of those that are not ready.
        unmeasured: the names of those that report no free room.
        complete: whether all were read.
    """

    total: int
    not_ready: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Bindings:
    """The bindings of one kind, or of both.

    Attributes:
        by_scheduler: how many name each scheduler.
        lagging: of ours, those whose scheduler has not seen their last change for long.
        unschedulable: of ours, those that could not be scheduled, and why.
        complete: whether all were read.
    """

    by_scheduler: Mapping[str, int] = field(default_factory=dict)
    lagging: tuple[str, ...] = ()
    unschedulable: tuple[tuple[str, str], ...] = ()
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Workload:
    """A Deployment on the host that runs a component of Karmada's or ours.

    Attributes:
        name: its own.
        component: ``karmada-scheduler``, ``karmada-controller-manager``, ``webhook``, ``controllers``.
        arguments: command and arguments of the container.
        wanted, ready: how many pods.
    """

    name: str
    component: str
    arguments: tuple[str, ...]
    wanted: int = 1
    ready: int = 1

    def option(self, name: str, default: str = "") -> str:
        """The last value of an option, ``--name=value`` or ``--name value``."""
        value = default
        for place, argument in enumerate(self.arguments):
            if argument == f"--{name}":
                value = self.arguments[place + 1] if place + 1 < len(self.arguments) else ""
            elif argument.startswith(f"--{name}="):
                value = argument.partition("=")[2]
        return value


@dataclass(frozen=True, slots=True)
class Probe:
    """What a probe endpoint says.

    Attributes:
        url: where.
        status: the HTTP status; 0 if nobody answered.
        told: the end of its answer, or why there was none.
    """

    url: str
    status: int
    told: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that was seen. None is what was not looked for; of Secrets and leases also what is not there.

    Attributes:
        now: by the target's clock if it told, else by the local one.
        kinds: by API version.
        served: by host and port of a webhook's URL.
        stored: the webhook's serving Secret.
        lease, other_leases, karmada_lease: the controllers', those of the same name in all namespaces, and that of
            Karmada's scheduler.
        workloads: on the host.
    """

    setup: Setup
    now: datetime
    target: Seen[Server]
    host: Seen[Server] | None = None
    kinds: Mapping[str, Seen[Kinds]] = field(default_factory=dict)
    hooks: Seen[Sequence[Hook]] | None = None
    served: Sequence[Served] = ()
    stored: Seen[Stored | None] = None
    trial: Seen[Trial] | None = None
    rights: Seen[Rights] | None = None
    lease: Seen[LeaseSeen | None] = None
    other_leases: Seen[Sequence[LeaseSeen]] | None = None
    karmada_lease: Seen[LeaseSeen | None] = None
    fleet: Seen[Fleet] | None = None
    bindings: Seen[Bindings] | None = None
    workloads: Seen[Sequence[Workload]] | None = None
    probes: Sequence[Probe] = ()
