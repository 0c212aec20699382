"""What simulate and explain have in common: their input, and how to decide."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from berthmaster.manifests import Manifests, load_manifests
from berthmaster.model.binding import binding_name
from berthmaster.model.errors import ServiceError
from berthmaster.model.policy import DEFAULT_NAMESPACE
from berthmaster.model.replicas import ReplicaPath
from berthmaster.runtime.feature_gates import WORKLOAD_AFFINITY, FeatureGates, gates_help
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile
from berthmaster.scheduling.profile import Profile, with_third_parties
from berthmaster.simulation.changes import AddLabel, AddTaint, Change, Down, Reschedule, Scale, SetPolicy
from berthmaster.simulation.world import ResourceName

if TYPE_CHECKING:
    from berthmaster.simulation.report import Explanation
    from extender.client import Client
    from extender.protocols.native import wire

_GATES = (WORKLOAD_AFFINITY,)
_FILE: Final = click.Path(dir_okay=False, exists=True, path_type=Path)
_NOT_FOUND: Final = 404


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what to schedule, and how."""
    manifests = click.option(
        "-f", "--filename", "paths", multiple=True, metavar="PATH",
        help="Manifests: a file, a folder, or - for stdin. Repeatable.",
    )  # fmt: skip
    return manifests(deciding_options(command))


def deciding_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how to decide, wherever the workloads come from."""
    options = (
        click.option(
            "--replica-path", "replica_paths", multiple=True, metavar="GROUP/VERSION/KIND=PATH[,PATH]",
            help="Where a custom resource keeps its replicas, and its pod template. Repeatable.",
        ),
        click.option(
            "--plugins", default="*", show_default=True, metavar="LIST",
            help="Filter and score plugins, as in karmada-scheduler: * for all, NAME, -NAME.",
        ),
        click.option(
            "--feature-gates", default="", metavar="LIST", help=f"NAME=true|false. {gates_help(_GATES)}.",
        ),
        click.option(
            "--enable-empty-workload-propagation", "keep_empty", is_flag=True,
            help="Clusters that are selected but get no replicas stay in the assignment.",
        ),
    )  # fmt: skip
    return reduce(lambda decorated, option: option(decorated), reversed(options), command)


def workload_affinity_on(feature_gates: str) -> bool:
    """Whether the gate WorkloadAffinity is on, the only one that decisions know.

    Raises:
        InputError: the gates are not written as Kubernetes writes them, or unknown.
    """
    return FeatureGates.parse(feature_gates, _GATES).on(WORKLOAD_AFFINITY)


def profile(plugins: str, *, workload_affinity: bool, keep_empty: bool) -> Profile:
    """How to decide, third parties' plugins included."""
    known = with_third_parties(built_in(workload_affinity=workload_affinity))
    return karmada_profile(
        known.selected([switch.strip() for switch in plugins.split(",") if switch.strip()]), keep_empty=keep_empty
    )


def read_manifests(paths: tuple[str, ...], replica_paths: tuple[str, ...]) -> tuple[Manifests, list[ReplicaPath]]:
    """What to schedule, and where custom resources keep their replicas.

    Raises:
        InputError: something in it is wrong.
    """
    if not paths:
        raise click.UsageError("nothing to schedule: name manifests with -f PATH (- for stdin)")
    parsed = [ReplicaPath.parse(text) for text in replica_paths]
    return load_manifests(paths, stdin=sys.stdin.buffer), parsed


def resource_name(text: str) -> ResourceName:
    """A resource as a command line names it.

    Raises:
        click.UsageError: it is not named so.
    """
    name = ResourceName.parse(text)
    if name is None:
        raise click.UsageError(f"{text!r} names no resource; accepted is KIND/NAME or NAMESPACE/KIND/NAME")
    return name


def now() -> datetime:
    """The time, to the second, as the API server records it."""
    return datetime.now(UTC).replace(microsecond=0)


class Remote(NamedTuple):
    """How to reach a service."""

    url: str
    token_file: Path | None
    ca_file: Path | None
    certificate: tuple[Path, Path] | None

    def client(self) -> "Client":
        """A client of it."""
        from extender.client import Client  # noqa: PLC0415 - only who asks waits for it

        return Client(self.url, token_file=self.token_file, ca_file=self.ca_file, certificate=self.certificate)


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--server`` and what it takes to be let in; the command gets ``remote``, a ``Remote`` or None."""

    def ask(
        *,
        server: str | None,
        token_file: Path | None,
        ca_file: Path | None,
        client_cert_file: Path | None,
        client_key_file: Path | None,
        **given: Any,  # noqa: ANN401 - click's values
    ) -> Any:  # noqa: ANN401 - the command's result
        if (client_cert_file is None) != (client_key_file is None):
            raise click.UsageError("--client-cert-file and --client-key-file go together")
        certificate = (client_cert_file, client_key_file) if client_cert_file and client_key_file else None
        remote = Remote(server, token_file, ca_file, certificate) if server is not None else None
        if remote is not None and (given["paths"] or given["replica_paths"]):
            raise click.UsageError("--server knows its own manifests; -f and --replica-path do not go with it")
        return command(remote=remote, **given)

    options = (
        click.option("--server", metavar="URL", help="Ask a running `berthmaster extender` instead."),
        click.option("--token-file", type=_FILE, help="With --server: the bearer token to show."),
        click.option("--ca-file", type=_FILE, help="With --server: the CAs that it may have its certificate from."),
        click.option("--client-cert-file", type=_FILE, help="With --server: our certificate, PEM."),
        click.option("--client-key-file", type=_FILE, help="With --server: its key, PEM."),
    )
    ask.__name__, ask.__doc__ = command.__name__, command.__doc__
    ask.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]  # click's own mark
    return reduce(lambda decorated, option: option(decorated), reversed(options), ask)


def on_the_wire(change: Change) -> "wire.Change":
    """A change as the service is told of it."""
    from extender.protocols.native import wire  # noqa: PLC0415 - only who asks waits for it

    match change:
        case Down(cluster):
            return wire.DownChange(cluster)
        case AddTaint(cluster, taint):
            return wire.TaintChange(cluster, taint)
        case AddLabel(cluster, key, value):
            return wire.LabelChange(cluster, key, value)
        case Scale(resource, replicas):
            return wire.ScaleChange(str(resource), replicas)
        case Reschedule():
            return wire.RescheduleChange()
        case SetPolicy(policy):
            return wire.PolicyChange(policy)
    raise TypeError(f"no word for {type(change).__name__} on the wire")


def explain_remotely(remote: Remote, name: "ResourceName") -> "Explanation":
    """The decision on a workload; without a namespace it is sought in ``default``, then among cluster-scoped ones.

    Raises:
        ServiceError: there is none, or the service cannot be reached.
    """
    binding = binding_name(name.kind, name.name)
    with remote.client() as client:
        try:
            return client.decision(binding, name.namespace or DEFAULT_NAMESPACE)
        except ServiceError as error:
            if error.status != _NOT_FOUND or name.namespace:
                raise
        return client.decision(binding)
