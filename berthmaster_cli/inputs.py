"""The input of simulate and explain: manifests and how to schedule them, or a running extender to ask instead."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from berthmaster.model.binding import binding_name
from berthmaster.model.errors import ServiceError
from berthmaster.model.policy import DEFAULT_NAMESPACE
from berthmaster.runtime.feature_gates import WORKLOAD_AFFINITY, FeatureGates, gates_help
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile
from berthmaster.scheduling.profile import Profile, with_third_parties
from berthmaster.simulation.workload import ResourceName
from berthmaster_cli.options import FILE, certificate_pair, kubeconfig_options, option_group, placement_limits_option
from berthmaster_cli.output import complain

if TYPE_CHECKING:
    from berthmaster.native_api import wire
    from berthmaster.native_api.client import Client
    from berthmaster.simulation.report import Explanation

    Connect = Callable[[], Client]

_GATES: Final = (WORKLOAD_AFFINITY,)
_EXISTING_FILE: Final = click.Path(dir_okay=False, exists=True, path_type=Path)
_NOT_FOUND: Final = 404

plugin_options: Final = option_group(
    click.option(
        "--plugins", default="*", show_default=True, metavar="LIST",
        help="The filter and score plugins, as in karmada-scheduler: a comma-separated list of * (all), NAME (only the "
        f"named ones) and -NAME (without it). Known are {', '.join(built_in().names)}.",
    ),
    click.option(
        "--enable-empty-workload-propagation", "keep_empty", is_flag=True,
        help="Keep selected clusters that get no replicas in the assignment.",
    ),
    placement_limits_option,
)  # fmt: skip
scheduling_options: Final = option_group(
    click.option(
        "--replica-path", "replica_paths", multiple=True, metavar="GROUP/VERSION/KIND=PATH[,PATH]",
        help="The fields of a custom resource that hold its replicas and its pod template, for example "
        "example.io/v1/Widget=spec.size,spec.template. Repeatable.",
    ),
    click.option(
        "--feature-gates", default="", metavar="LIST",
        help=f"Feature gates, as a comma-separated list of NAME=true|false. {gates_help(_GATES)}.",
    ),
    plugin_options,
)  # fmt: skip
live_options: Final = option_group(
    kubeconfig_options("the control plane to read"),
    click.option(
        "--live", is_flag=True,
        help="Read the control plane even if -f is given: the manifests replace stored objects, as an apply would.",
    ),
    click.option("--dump", type=FILE, help="Write what was read from the control plane to a file that -f reads again."),
    click.option(
        "--redact", is_flag=True,
        help="With --dump: leave out environments, commands, images, data, and annotations that can hold them.",
    ),
    click.option(
        "--read-timeout-s", type=click.FloatRange(1, 3600), default=120.0, show_default=True,
        help="The time limit for reading the control plane, in seconds.",
    ),
)  # fmt: skip
namespace_option: Final = click.option(
    "-n", "--namespace", default="", metavar="NAME", help="Only the workloads of this namespace.",
)  # fmt: skip
workload_namespace_option: Final = click.option(
    "-n", "--namespace", default="", metavar="NAME",
    help="The namespace of the workload. Default: on a control plane, that of the context.",
)  # fmt: skip
source_options: Final = option_group(
    click.option(
        "-f", "--filename", "paths", multiple=True, type=click.Path(allow_dash=True), metavar="PATH",
        help="Read manifests instead of a control plane: a file, a folder, or - for standard input. Repeatable.",
    ),
    live_options,
    scheduling_options,
)  # fmt: skip
input_options: Final = option_group(
    source_options,
    click.option("--server", metavar="URL", help="Ask a running `berthmaster extender` instead."),
    click.option("--token-file", type=_EXISTING_FILE, help="With --server: a file with the bearer token."),
    click.option("--ca-file", type=_EXISTING_FILE, help="With --server: the CA certificates to trust, in PEM."),
    click.option("--client-cert-file", type=_EXISTING_FILE, help="With --server: the client certificate, in PEM."),
    click.option("--client-key-file", type=_EXISTING_FILE, help="With --server: the key of that certificate, in PEM."),
)  # fmt: skip


def workload_affinity_on(feature_gates: str) -> bool:
    """Return whether the gate WorkloadAffinity is on. Decisions depend on no other gate.

    Raises:
        InputError: the text is no list of gates, or a gate is unknown.
    """
    return FeatureGates.parse(feature_gates, _GATES).on(WORKLOAD_AFFINITY)


def profile_from(given: Mapping[str, Any], *, workload_affinity: bool, component_sets: bool = True) -> Profile:
    """Return the scheduling profile from the values of ``plugin_options``, including plugins of third parties.

    Args:
        given: the values of the command's options.
        workload_affinity: whether the gate ``WorkloadAffinity`` is on.
        component_sets: whether the gate ``MultiplePodTemplatesScheduling`` is on.
    """
    known = with_third_parties(built_in(workload_affinity=workload_affinity))
    switches = [switch.strip() for switch in given["plugins"].split(",") if switch.strip()]
    return karmada_profile(
        known.selected(switches),
        keep_empty=given["keep_empty"],
        limits=given["placement_limits"],
        component_sets=component_sets,
    )


def current_time() -> datetime:
    """Return the current time in whole seconds, as API servers record it."""
    return datetime.now(UTC).replace(microsecond=0)


def remote_from(given: Mapping[str, Any]) -> "Connect | None":
    """Return what connects to the extender that ``--server`` names; None without the option.

    Raises:
        click.UsageError: options contradict each other.
    """
    pair = certificate_pair(given, "client-cert-file", "client-key-file")
    if given["server"] is None:
        return None
    if given["paths"] or given["replica_paths"]:
        raise click.UsageError("--server cannot be combined with -f or --replica-path: the extender has its manifests")
    if given["live"] or given["kubeconfig"] is not None or given["context"] is not None or given["dump"] is not None:
        raise click.UsageError("--server cannot be combined with --live, --kubeconfig, --context or --dump")

    def connect() -> "Client":
        from berthmaster.native_api.client import Client  # noqa: PLC0415 - imported only if it is used

        return Client(given["server"], token_file=given["token_file"], ca_file=given["ca_file"], certificate=pair)

    return connect


def explain_remotely(connect: "Connect", name: ResourceName) -> "Explanation":
    """Ask an extender for the decision on a workload.

    A name without a namespace means a resource in ``default``, or else a cluster-scoped resource.

    Raises:
        ServiceError: there is no such workload, or the extender cannot be reached.
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
