"""``berthmaster extender``: serve scheduling decisions over HTTP."""

from pathlib import Path
from typing import Any, Final

import click

from berthmaster.model.replicas import ReplicaPath
from berthmaster.model.selector import parse_selector
from berthmaster.runtime import logs
from berthmaster_cli.inputs import deciding_options, profile, workload_affinity_on
from berthmaster_cli.options import config_option
from berthmaster_cli.serving_options import ServingDefaults, server_options_from, serving_options

_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_MIB: Final = 2**20


@click.command(
    context_settings={"auto_envvar_prefix": "BERTHMASTER_EXTENDER"},
    epilog="Every option is also read from the environment, --token-file from BERTHMASTER_EXTENDER_TOKEN_FILE and so "
    "on; lists there are separated by spaces. Signals: TERM drains and stops.",
)
@config_option
@click.option(
    "-f", "--filename", "manifests", multiple=True, type=click.Path(path_type=Path), metavar="PATH",
    help="Clusters, policies, bindings and resources: a file or a folder, read again when it changes. Repeatable.",
)  # fmt: skip
@click.option(
    "--watch", "watched", multiple=True, type=click.Choice(["nodes", "clusters", "federatedclusters", "policies"]),
    help="Instead of manifests: watch Nodes, Karmada's Clusters or KubeAdmiral's FederatedClusters of an API server, "
    "and Karmada's policies. Repeatable.",
)  # fmt: skip
@click.option("--kubeconfig", type=_FILE, help="Access to that API server; without it, that of a pod in its cluster.")
@click.option("--context", help="Which context of the kubeconfig.")
@click.option(
    "--interval-s", type=click.FloatRange(0.1, 3600), default=2.0, show_default=True,
    help="How often the manifests are looked at.",
)  # fmt: skip
@serving_options(
    ServingDefaults(
        bind="127.0.0.1:9443",
        probe_bind="127.0.0.1:9080",
        tls_required=False,
        tls_min_version="1.2",
        threads=32,
        body_bytes=(32 * _MIB, 512 * _MIB),
        timeout_s=(5.0, 300.0),
    )
)
@click.option(
    "--token-file", type=_FILE,
    help="Clients must show one of these bearer tokens, TOKEN[,NAME] a line.",
)  # fmt: skip
@click.option("--insecure", is_flag=True, help="Serve beyond loopback even without TLS and authentication.")
@click.option(
    "--max-line-bytes", type=click.IntRange(1024, 512 * _MIB), default=4 * _MIB, show_default=True,
    help="The longest line of a batch.",
)  # fmt: skip
@click.option(
    "--max-batch-lines", type=click.IntRange(1), default=100_000, show_default=True, help="The most lines of a batch.",
)  # fmt: skip
@click.option(
    "--stream-timeout-s", type=click.FloatRange(1, 3600), default=300.0, show_default=True,
    help="How long a batch may take in all; each piece of it has the request's timeout.",
)  # fmt: skip
@deciding_options
@click.option(
    "--pass-in-doubt/--reject-in-doubt", default=True, show_default=True,
    help="What KubeAdmiral's filter answers of a cluster that it cannot judge.",
)  # fmt: skip
@click.option(
    "--kube-scheduler-members", default="", metavar="SELECTOR",
    help="Which nodes are member clusters to kube-scheduler's protocol, as in type=virtual-node. All by default.",
)  # fmt: skip
@click.option(
    "--kube-scheduler-complete-lists", is_flag=True,
    help="kube-scheduler has percentageOfNodesToScore: 100, so that it never offers a mere sample of the nodes.",
)  # fmt: skip
def command(**given: Any) -> None:  # noqa: ANN401 - click's values, each checked by its type
    """Serve scheduling decisions over HTTP: natively, and to KubeAdmiral and kube-scheduler."""
    workload_affinity = workload_affinity_on(given["feature_gates"])
    logs.configure(given["log_level"])
    from berthmaster.kube.kinds import WatchOptions  # noqa: PLC0415 - the same
    from extender.protocols.kube_scheduler import Options  # noqa: PLC0415 - the same
    from extender.protocols.services import Limits  # noqa: PLC0415 - `--help` must not wait for the server
    from extender.serving import ExtenderOptions, serve  # noqa: PLC0415 - the same

    serve(
        ExtenderOptions(
            server=server_options_from("berthmaster-extender", given),
            manifests=given["manifests"],
            token_file=given["token_file"],
            insecure=given["insecure"],
            limits=Limits(given["max_body_bytes"], given["max_line_bytes"], given["max_batch_lines"]),
            stream_timeout_s=given["stream_timeout_s"],
            interval_s=given["interval_s"],
            replica_paths=[ReplicaPath.parse(text) for text in given["replica_paths"]],
            workload_affinity=workload_affinity,
            profile=profile(given["plugins"], workload_affinity=workload_affinity, keep_empty=given["keep_empty"]),
            pass_in_doubt=given["pass_in_doubt"],
            watch=WatchOptions(given["watched"], given["kubeconfig"], given["context"]) if given["watched"] else None,
            kube_scheduler=Options(
                parse_selector(given["kube_scheduler_members"]), given["kube_scheduler_complete_lists"]
            ),
        )
    )
