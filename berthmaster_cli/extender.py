"""``berthmaster extender``: serve scheduling decisions over HTTP."""

from pathlib import Path
from typing import Any, Final

import click

from berthmaster.model.replicas import ReplicaPath
from berthmaster.model.selector import parse_selector
from berthmaster.runtime import logs
from berthmaster_cli.environment import environment_text
from berthmaster_cli.inputs import profile_from, scheduling_options, workload_affinity_on
from berthmaster_cli.ledger_options import checked_url, ledger_options
from berthmaster_cli.options import FILE, config_option, kubeconfig_options, lease_options
from berthmaster_cli.serving_options import ServingDefaults, server_options_from, serving_options

_ENVIRONMENT: Final = "BERTHMASTER_EXTENDER"
_MIB: Final = 2**20
_KINDS: Final = ("nodes", "clusters", "federatedclusters", "policies", "bindings", "workloads")


class WatchedKinds(click.ParamType[tuple[str, ...]]):
    """A list of kinds to watch, separated by commas."""

    name = "kinds"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        kinds = tuple(filter(None, (each.strip() for each in value.split(","))))
        unknown = [each for each in kinds if each not in _KINDS]
        if unknown or not kinds:
            self.fail(f"{(unknown or [value])[0]!r} is not one of {', '.join(_KINDS)}.", param, ctx)
        return kinds


@click.command(
    context_settings={"auto_envvar_prefix": _ENVIRONMENT},
    epilog=environment_text(_ENVIRONMENT, "--token-file") + "Signals: TERM drains and stops.",
)
@config_option
@click.option(
    "-f", "--filename", "manifests", multiple=True, type=click.Path(path_type=Path), metavar="PATH",
    help="Manifests of clusters, policies, bindings and resources: a file or folder, reloaded on changes. Repeatable.",
)  # fmt: skip
@click.option(
    "--watch", "watched", multiple=True, type=WatchedKinds(), metavar="KIND[,KIND]",
    help="Watch an API server instead of reading manifests: nodes, clusters (Karmada) or federatedclusters "
    "(KubeAdmiral), and policies, bindings and workloads (Karmada). bindings includes clusters; workloads includes "
    "clusters, policies and bindings. Repeatable.",
)  # fmt: skip
@kubeconfig_options("that API server")
@click.option(
    "--interval-s", type=click.FloatRange(0.1, 3600), default=2.0, show_default=True,
    help="The interval of checks whether the manifests have changed, in seconds.",
)  # fmt: skip
@serving_options(
    ServingDefaults(
        bind="127.0.0.1:9443",
        probe_bind="127.0.0.1:9080",
        tls_required=False,
        tls_min_version="1.2",
        threads=32,
        body_bytes=(32 * _MIB, 512 * _MIB),
        request_memory_mib=256,
        timeout_s=(5.0, 300.0),
    )
)
@click.option(
    "--token-file", type=FILE,
    help="A file with the accepted bearer tokens, one TOKEN[,NAME] per line.",
)  # fmt: skip
@click.option("--insecure", is_flag=True, help="Allow other addresses than loopback without TLS and authentication.")
@click.option(
    "--max-line-bytes", type=click.IntRange(1024, 512 * _MIB), default=4 * _MIB, show_default=True,
    help="The maximum size of a line of a batch, in bytes.",
)  # fmt: skip
@click.option(
    "--max-batch-lines", type=click.IntRange(1), default=100_000, show_default=True,
    help="The maximum number of lines in a batch.",
)  # fmt: skip
@click.option(
    "--stream-timeout-s", type=click.FloatRange(1, 3600), default=300.0, show_default=True,
    help="The timeout of a whole batch, in seconds. Each line has the timeout of a request.",
)  # fmt: skip
@scheduling_options
@click.option(
    "--pass-in-doubt/--reject-in-doubt", default=True, show_default=True,
    help="What the KubeAdmiral filter answers about a request that it cannot check, such as an invalid one or one that "
    "takes too long. KubeAdmiral removes workloads from clusters that are rejected.",
)  # fmt: skip
@click.option(
    "--kube-scheduler-members", default="", metavar="SELECTOR",
    help="The label selector of nodes that represent clusters in the kube-scheduler protocol, for example "
    "type=virtual-node. Default: all nodes.",
)  # fmt: skip
@click.option(
    "--kube-scheduler-complete-lists", is_flag=True,
    help="Take the nodes in each request for all nodes that fit, so that no pod waits for further ones. Only correct "
    "if kube-scheduler has percentageOfNodesToScore: 100.",
)  # fmt: skip
@ledger_options("Answer /v1/history from this ledger")
@lease_options
def command(**given: Any) -> None:  # noqa: ANN401 - click's values, each checked by its type
    """Serve scheduling decisions over HTTP, in its own API and in those of KubeAdmiral and kube-scheduler."""
    workload_affinity = workload_affinity_on(given["feature_gates"])
    logs.configure(given["log_level"])
    from berthmaster.kube.kinds import WatchOptions  # noqa: PLC0415 - the same
    from berthmaster_cli.policy_findings import policy_findings  # noqa: PLC0415 - the same
    from extender.protocols.kube_scheduler import KubeSchedulerOptions  # noqa: PLC0415 - the same
    from extender.protocols.services import RequestLimits  # noqa: PLC0415 - `--help` must not import the server
    from extender.serving import ExtenderOptions, serve  # noqa: PLC0415 - the same

    watched = [kind for kinds in given["watched"] for kind in kinds]
    serve(
        ExtenderOptions(
            server=server_options_from("berthmaster-extender", given),
            manifests=given["manifests"],
            token_file=given["token_file"],
            insecure=given["insecure"],
            limits=RequestLimits(given["max_body_bytes"], given["max_line_bytes"], given["max_batch_lines"]),
            stream_timeout_s=given["stream_timeout_s"],
            interval_s=given["interval_s"],
            replica_paths=[ReplicaPath.parse(text) for text in given["replica_paths"]],
            workload_affinity=workload_affinity,
            profile=profile_from(given, workload_affinity=workload_affinity),
            pass_in_doubt=given["pass_in_doubt"],
            ledger=checked_url(given["ledger_url"]),
            lease=(given["lease_namespace"], given["lease_name"]),
            findings=policy_findings(given["placement_limits"]),
            watch=WatchOptions(watched, given["kubeconfig"], given["context"]) if watched else None,
            kube_scheduler=KubeSchedulerOptions(
                parse_selector(given["kube_scheduler_members"]),
                given["kube_scheduler_complete_lists"],
                given["placement_limits"],
            ),
        )
    )
