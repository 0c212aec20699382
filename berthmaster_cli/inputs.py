"""The input of simulate and explain: manifests and how to schedule them, or a running extender to ask instead."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from berthmaster.manifests.document import ManifestLimits
from berthmaster.manifests.files import read_yaml
from berthmaster.model.binding import binding_name
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert, unknown_fields
from berthmaster.model.errors import FieldError, InputError, ServiceError
from berthmaster.model.policy import DEFAULT_NAMESPACE
from berthmaster.runtime.feature_gates import WORKLOAD_AFFINITY, FeatureGates, gates_help
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile
from berthmaster.scheduling.prices import NO_PRICES, ClusterCost, Prices, price_errors
from berthmaster.scheduling.profile import Plugins, Profile, with_third_parties
from berthmaster.simulation.eligibility import SCHEDULERS
from berthmaster.simulation.workload import ResourceName
from berthmaster_cli.flags import Flags, option
from berthmaster_cli.options import KubeconfigFlags, PlacementLimitsFlags, ReadTimeoutFlags, certificate_pair
from berthmaster_cli.output import complain

if TYPE_CHECKING:
    from berthmaster.native_api import wire
    from berthmaster.native_api.client import Client
    from berthmaster.simulation.report import Explanation

    Connect = Callable[[], Client]

_PRICES_KIND: Final = "Prices"
_PRICE_BYTES: Final = 2**20
_PROBLEMS: Final = 10
_GATES: Final = (WORKLOAD_AFFINITY,)
_EXISTING_FILE: Final = click.Path(dir_okay=False, exists=True, path_type=Path)
_NOT_FOUND: Final = 404


class PluginFlags(PlacementLimitsFlags):
    """The plugins of decisions."""

    plugins: str = option(
        "The filter and score plugins, as in karmada-scheduler: a comma-separated list of * (all), NAME (only the "
        f"named ones) and -NAME (without it). Known are {', '.join(built_in().names)}.",
        "*", metavar="LIST",
    )  # fmt: skip
    keep_empty: bool = option(
        "Keep selected clusters that get no replicas in the assignment.",
        names=("--enable-empty-workload-propagation",),
    )  # fmt: skip
    prices: Path | None = option(
        "A file with the prices of CPU and memory by labels of clusters (docs/extending.md#prices). Answers then say "
        "what a change costs each month."
    )
    cost_weight: int = option(
        "Prefer clusters on which a workload costs less: the score of the cheapest one, beside 100 for a cluster that "
        "has the workload. 0 turns the score off.",
        0, click.IntRange(0, 100),
    )  # fmt: skip


class SchedulingFlags(PluginFlags):
    """How workloads are scheduled."""

    replica_paths: tuple[str, ...] = option(
        "The fields of a custom resource that hold its replicas and its pod template, for example "
        "example.io/v1/Widget=spec.size,spec.template. Repeatable.",
        names=("--replica-path",), metavar="GROUP/VERSION/KIND=PATH[,PATH]",
    )  # fmt: skip
    feature_gates: str = option(
        f"Feature gates, as a comma-separated list of NAME=true|false. {gates_help(_GATES)}.", "", metavar="LIST"
    )


class LiveFlags(KubeconfigFlags, ReadTimeoutFlags):
    """How a control plane is read."""

    live: bool = option(
        "Read the control plane even if -f is given: the manifests replace stored objects, as an apply would."
    )
    dump: Path | None = option("Write what was read from the control plane to a file that -f reads again.")
    redact: bool = option(
        "With --dump: leave out environments, commands, images, data, and annotations that can hold them."
    )


class PresentFlags(Flags):
    """Which bindings and policies are simulated."""

    schedulers: tuple[str, ...] = option(
        "Also simulate the bindings of the scheduler with this name, by Karmada's rules. Always simulated: "
        f"{', '.join(sorted(SCHEDULERS))}. Repeatable.",
        names=("--scheduler-name",), metavar="NAME",
    )  # fmt: skip
    unknown_fields: str = option(
        "What to do with placements that have fields which this version does not know. hold: report that no "
        "decision is simulated. ignore: decide as if the fields were absent.",
        "hold", click.Choice(["hold", "ignore"]),
    )  # fmt: skip
    lenient: bool = option(
        "Ignore misspelled fields and read policies that the webhook would refuse, with a warning for each. "
        "Otherwise both are errors.",
    )  # fmt: skip


class NamespaceFlags(Flags):
    """The namespace of all workloads."""

    namespace: str = option("Only the workloads of this namespace.", "", names=("-n", "--namespace"), metavar="NAME")


class WorkloadNamespaceFlags(NamespaceFlags):
    """The namespace of one workload."""

    namespace: str = option(
        "The namespace of the workload. Default: on a control plane, that of the context.",
        "", names=("-n", "--namespace"), metavar="NAME",
    )  # fmt: skip


class SourceFlags(LiveFlags, SchedulingFlags, PresentFlags, NamespaceFlags):
    """Manifests or a control plane, and how to schedule what they hold."""

    paths: tuple[str, ...] = option(
        "Read manifests instead of a control plane: a file, a folder, or - for standard input. Repeatable.",
        type=click.Path(allow_dash=True), names=("-f", "--filename"), metavar="PATH",
    )  # fmt: skip


class InputFlags(SourceFlags):
    """A source, or a running extender to ask instead."""

    server: str | None = option("Ask a running `berthmaster extender` instead.", metavar="URL")
    token_file: Path | None = option("With --server: a file with the bearer token.", type=_EXISTING_FILE)
    ca_file: Path | None = option("With --server: the CA certificates to trust, in PEM.", type=_EXISTING_FILE)
    client_cert_file: Path | None = option("With --server: the client certificate, in PEM.", type=_EXISTING_FILE)
    client_key_file: Path | None = option("With --server: the key of that certificate, in PEM.", type=_EXISTING_FILE)


def workload_affinity_on(feature_gates: str) -> bool:
    """Return whether the gate WorkloadAffinity is on. Decisions depend on no other gate."""
    return FeatureGates.parse(feature_gates, _GATES).on(WORKLOAD_AFFINITY)


def profile_from(flags: PluginFlags, *, workload_affinity: bool, component_sets: bool = True) -> Profile:
    """Return the scheduling profile from flags, including plugins of third parties."""
    prices = NO_PRICES if flags.prices is None else prices_in(flags.prices)
    known = with_third_parties(built_in(workload_affinity=workload_affinity))
    if flags.cost_weight:
        known = Plugins(known.filters, (*known.scores, ClusterCost(prices, flags.cost_weight)))
    switches = [switch.strip() for switch in flags.plugins.split(",") if switch.strip()]
    return karmada_profile(
        known.selected(switches),
        keep_empty=flags.keep_empty,
        limits=flags.placement_limits,
        component_sets=component_sets,
        prices=prices,
    )


def prices_in(path: Path) -> Prices:
    """Return the prices in a file.

    Raises:
        InputError: the file cannot be read, or it is no valid list of prices. The message has the path of the value.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_PRICE_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > _PRICE_BYTES:
        raise InputError(f"{path}: is larger than {_PRICE_BYTES:,} bytes; use fewer entries")
    raw = [each for _, each in read_yaml(data, str(path), ManifestLimits(depth=8, documents=1)) if each is not None]
    if not raw or not isinstance(raw[0], dict) or raw[0].get("kind") != _PRICES_KIND:
        raise InputError(f"{path}: is no list of prices; accepted is a document with kind: {_PRICES_KIND}")
    try:
        if unknown := unknown_fields(Prices, raw[0]):
            raise unknown[0]
        prices = convert(Prices, raw[0])
        prices.check()
    except FieldError as error:
        raise InputError(f"{path}: {error}") from None
    return prices


def report_prices(clusters: Iterable[Cluster]) -> None:
    """Print on standard error which clusters have an invalid price."""
    for problem in islice(price_errors(clusters), _PROBLEMS):
        complain(problem)


def current_time() -> datetime:
    """Return the current time in whole seconds, as API servers record it."""
    return datetime.now(UTC).replace(microsecond=0)


def remote_from(flags: InputFlags) -> "Connect | None":
    """Return what connects to the extender that ``--server`` names; None without the option."""
    pair = certificate_pair(flags.client_cert_file, flags.client_key_file, "client-")
    server = flags.server
    if server is None:
        return None
    if flags.paths or flags.replica_paths:
        raise click.UsageError("--server cannot be combined with -f or --replica-path: the extender has its manifests")
    if flags.live or flags.kubeconfig is not None or flags.context is not None or flags.dump is not None:
        raise click.UsageError("--server cannot be combined with --live, --kubeconfig, --context or --dump")

    def connect() -> "Client":
        from berthmaster.native_api.client import Client  # noqa: PLC0415 - imported only if it is used

        return Client(server, token_file=flags.token_file, ca_file=flags.ca_file, certificate=pair)

    return connect


def explain_remotely(connect: "Connect", name: ResourceName) -> "Explanation":
    """Ask an extender for the decision on a workload.

    A name without a namespace means a resource in ``default``, or else a cluster-scoped resource.
    """
    binding = binding_name(name.kind, name.name)
    with connect() as client:
        try:
            answer = client.decision(binding, name.namespace or DEFAULT_NAMESPACE)
        except ServiceError as error:
            if error.status != _NOT_FOUND or name.namespace:
                raise
            answer = client.decision(binding)
    report_gaps(answer.gaps, answer.staleness)
    return answer.explanation


def report_gaps(gaps: Sequence[str], staleness: "wire.Staleness | None") -> None:
    """Print on standard error what an extender does not know, and since when its state is stale."""
    for gap in gaps:
        complain(gap)
    if staleness is not None and staleness.stale_since is not None:
        since = staleness.stale_since.isoformat(timespec="seconds")
        complain(f"the extender is stale since {since}: {staleness.problem}")
