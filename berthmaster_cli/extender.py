"""``berthmaster extender``: serve scheduling decisions over HTTP."""

from pathlib import Path
from typing import Final

import click

from berthmaster.model.comma_lists import comma_separated
from berthmaster.model.errors import InputError
from berthmaster.model.selector import parse_selector
from berthmaster.runtime import logs
from berthmaster_cli.flags import Parsed, option, options
from berthmaster_cli.ledger_options import LedgerFlags
from berthmaster_cli.option_variables import environment_text
from berthmaster_cli.options import KubeconfigFlags, LeaseFlags, config_option
from berthmaster_cli.scheduling_options import SchedulingFlags, profile_from
from berthmaster_cli.serving_options import ServingFlags, server_options_from

_ENVIRONMENT: Final = "BERTHMASTER_EXTENDER"
_MIB: Final = 2**20
_KINDS: Final = ("nodes", "clusters", "federatedclusters", "policies", "bindings", "workloads")


def watched_kinds(text: str) -> tuple[str, ...]:
    """Parse a list of kinds to watch, separated by commas."""
    kinds = tuple(comma_separated(text))
    unknown = [each for each in kinds if each not in _KINDS]
    if unknown or not kinds:
        raise InputError(f"{(unknown or [text])[0]!r} is not one of {', '.join(_KINDS)}.")
    return kinds


class _ExtenderFlags(KubeconfigFlags, ServingFlags, SchedulingFlags, LedgerFlags, LeaseFlags):
    manifests: tuple[Path, ...] = option(
        "Manifests of clusters, policies, bindings and resources: a file or folder, reloaded on changes. Repeatable.",
        type=click.Path(path_type=Path), names=("-f", "--filename"), metavar="PATH",
    )  # fmt: skip
    watched: tuple[tuple[str, ...], ...] = option(
        "Watch an API server instead of reading manifests: nodes, clusters (Karmada) or federatedclusters "
        "(KubeAdmiral), and policies, bindings and workloads (Karmada). bindings includes clusters; workloads includes "
        "clusters, policies and bindings. Repeatable.",
        type=Parsed("kinds", watched_kinds), names=("--watch",), metavar="KIND[,KIND]",
    )  # fmt: skip
    owner_annotation: str = option(
        "The annotation of a workload that names who owns it, for lists of the workloads of one owner.",
        "a8r.io/owner", metavar="NAME",
    )  # fmt: skip
    interval_s: float = option(
        "The interval of checks whether the manifests have changed, in seconds.", 2.0, click.FloatRange(0.1, 3600)
    )
    token_file: Path | None = option("A file with the accepted bearer tokens, one TOKEN[,NAME] per line.")
    insecure: bool = option("Allow other addresses than loopback without TLS and authentication.")
    stream_timeout_s: float = option(
        "The timeout of a plan with progress, in seconds.", 300.0, click.FloatRange(1, 3600)
    )
    pass_in_doubt: bool = option(
        "What the KubeAdmiral filter answers about a request that it cannot check, such as an invalid one or one that "
        "takes too long. KubeAdmiral removes workloads from clusters that are rejected.",
        default=True, names=("--pass-in-doubt/--reject-in-doubt",),
    )  # fmt: skip
    kube_scheduler_members: str = option(
        "The label selector of nodes that represent clusters in the kube-scheduler protocol, for example "
        "liqo.io/type=virtual-node for Liqo, type=virtual-kubelet for virtual-kubelet. Default: all nodes.",
        "", metavar="SELECTOR",
    )  # fmt: skip
    kube_scheduler_complete_lists: bool = option(
        "Take the nodes in each request for all nodes that fit, so that no pod waits for further ones. Only correct "
        "if kube-scheduler has percentageOfNodesToScore: 100 and minCandidateNodesPercentage: 100.",
    )  # fmt: skip


@click.command(
    context_settings={"auto_envvar_prefix": _ENVIRONMENT},
    epilog=environment_text(_ENVIRONMENT, "--token-file") + "Signals: TERM drains and stops.",
)
@config_option
@options(
    _ExtenderFlags,
    {
        "bind": {"default": "127.0.0.1:9443"},
        "probe_bind": {"default": "127.0.0.1:9080"},
        "tls_min_version": {"default": "1.2"},
        "workers": {"default": 1},
        "threads": {"default": 32},
        "max_body_bytes": {"default": 32 * _MIB, "type": click.IntRange(1024, 512 * _MIB)},
        "request_memory_mib": {"default": 256},
        "request_timeout_s": {"default": 5.0, "type": click.FloatRange(0.1, 300.0)},
    },
    server="that API server",
    ledger="Answer /v1/history from this ledger",
    timeout="",
    copies=" Each one has a copy of the fleet in memory.",
)
def command(flags: _ExtenderFlags) -> None:
    """Serve scheduling decisions over HTTP, in its own API and in those of KubeAdmiral and kube-scheduler."""
    logs.configure(flags.log_level)
    from berthmaster.kube.watch_options import WatchOptions  # noqa: PLC0415 - the same
    from berthmaster_cli.rule_options import policy_findings  # noqa: PLC0415 - the same
    from extender.protocols.kube_scheduler import KubeSchedulerOptions  # noqa: PLC0415 - the same
    from extender.protocols.services import RequestLimits  # noqa: PLC0415 - `--help` must not import the server
    from extender.serving import ExtenderOptions, serve  # noqa: PLC0415 - the same
    from extender.state.workloads import BindingOptions  # noqa: PLC0415 - the same

    watched = [kind for kinds in flags.watched for kind in kinds]
    serve(
        ExtenderOptions(
            server=server_options_from("berthmaster-extender", flags),
            manifests=flags.manifests,
            token_file=flags.token_file,
            insecure=flags.insecure,
            limits=RequestLimits(flags.max_body_bytes),
            stream_timeout_s=flags.stream_timeout_s,
            interval_s=flags.interval_s,
            bindings=BindingOptions(
                replica_paths=flags.replica_fields,
                workload_affinity=flags.workload_affinity,
                lease=(flags.lease_namespace, flags.lease_name),
                owner=flags.owner_annotation,
            ),
            profile=profile_from(flags),
            pass_in_doubt=flags.pass_in_doubt,
            ledger=flags.checked(),
            findings=policy_findings(flags.placement_limits),
            watch=WatchOptions(watched, flags.kubeconfig, flags.context) if watched else None,
            kube_scheduler=KubeSchedulerOptions(
                parse_selector(flags.kube_scheduler_members),
                flags.kube_scheduler_complete_lists,
                flags.placement_limits,
            ),
        )
    )
