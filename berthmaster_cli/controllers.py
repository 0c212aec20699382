"""``berthmaster controllers``: what watches and writes."""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from berthmaster.controllers.registry import REGISTRY, gated, selected
from berthmaster.controllers.settings import GATES, ControllerSettings, EstimatorSettings
from berthmaster.runtime import logs
from berthmaster.runtime.feature_gates import WORKLOAD_AFFINITY, FeatureGates, gates_help
from berthmaster_cli.inputs import profile
from berthmaster_cli.options import Address, config_option, log_level_option

if TYPE_CHECKING:
    from berthmaster.kube.lease import LeaseOptions

_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_PORT: Final = click.IntRange(1, 65535)
_SECONDS: Final = click.FloatRange(0, min_open=True, max=3600)


def _options(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Several options as one decorator."""
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


_scheduling = _options(
    click.option(
        "--scheduler-name", default="berthmaster", show_default=True, metavar="NAME",
        help="Bindings with this spec.schedulerName are scheduled here.",
    ),
    click.option(
        "--concurrent-bindings", type=click.IntRange(1, 64), default=16, show_default=True,
        help="How many bindings are worked on at once.",
    ),
    click.option(
        "--concurrent-rebalancers", type=click.IntRange(1, 64), default=2, show_default=True,
        help="How many WorkloadRebalancers are worked on at once.",
    ),
    click.option(
        "--plugins", default="*", show_default=True, metavar="LIST",
        help="Filter and score plugins, as in karmada-scheduler: * for all, NAME, -NAME.",
    ),
    click.option(
        "--enable-empty-workload-propagation", "keep_empty", is_flag=True,
        help="Clusters that are selected but get no replicas stay in the assignment.",
    ),
    click.option(
        "--failover", type=click.Choice(["off", "not-ready"]), default="off", show_default=True,
        help="not-ready: replace assigned clusters that stay not ready.",
    ),
    click.option(
        "--failover-toleration-s", type=click.FloatRange(0, 86400), default=300.0, show_default=True,
        help="How long a cluster may be not ready before that.",
    ),
)  # fmt: skip
_estimators = _options(
    click.option(
        "--enable-scheduler-estimator", is_flag=True, help="Ask Karmada's scheduler estimators for free room.",
    ),
    click.option(
        "--scheduler-estimator-timeout-s", type=_SECONDS, default=3.0, show_default=True,
        help="How long all their answers together may take.",
    ),
    click.option(
        "--scheduler-estimator-service-namespace", default="karmada-system", show_default=True, metavar="NAME",
        help="The namespace of their Services.",
    ),
    click.option(
        "--scheduler-estimator-service-prefix", default="karmada-scheduler-estimator", show_default=True,
        metavar="PREFIX", help="Their Services are called PREFIX-CLUSTER.",
    ),
    click.option("--scheduler-estimator-port", type=_PORT, default=10352, show_default=True, help="Their port."),
    click.option("--scheduler-estimator-ca-file", type=_FILE, help="The CAs that they may have certificates from."),
    click.option("--scheduler-estimator-cert-file", type=_FILE, help="Our certificate towards them, PEM."),
    click.option("--scheduler-estimator-key-file", type=_FILE, help="Its private key, PEM."),
    click.option("--scheduler-estimator-insecure-skip-verify", is_flag=True, help="Do not check their certificates."),
)  # fmt: skip
_election = _options(
    click.option(
        "--leader-elect/--no-leader-elect", default=True, show_default=True,
        help="Work only while holding a Lease, so that several processes may run.",
    ),
    click.option(
        "--leader-elect-namespace", default="karmada-system", show_default=True, metavar="NAME",
        help="Where that Lease is.",
    ),
    click.option(
        "--leader-elect-name", default="berthmaster-controllers", show_default=True, metavar="NAME",
        help="Its name.",
    ),
    click.option(
        "--leader-elect-lease-s", type=click.IntRange(1, 3600), default=15, show_default=True,
        help="How long others wait after the last sign of a leader.",
    ),
    click.option(
        "--leader-elect-renew-s", type=_SECONDS, default=10.0, show_default=True,
        help="How long a leader that cannot renew goes on; less than the lease.",
    ),
    click.option(
        "--leader-elect-retry-s", type=_SECONDS, default=2.0, show_default=True,
        help="How often the lease is renewed, or looked at.",
    ),
)  # fmt: skip


@click.command(
    context_settings={"auto_envvar_prefix": "BERTHMASTER_CONTROLLERS"},
    epilog="Every option is also read from the environment, --kubeconfig from BERTHMASTER_CONTROLLERS_KUBECONFIG and "
    "so on. Signals: TERM and INT finish what is under way, give the lease back and stop. Exit codes: 0 stopped; 1 "
    "leadership was lost; 2 bad usage or input.",
)
@config_option
@click.option("--kubeconfig", type=_FILE, help="Access to the API server; without it, that of a pod in its cluster.")
@click.option("--context", help="Which context of the kubeconfig.")
@click.option(
    "--controllers", default="*", show_default=True, metavar="LIST",
    help="As in kube-controller-manager: * for all that are on by default, NAME, -NAME. "
    f"There are {', '.join(each.name if each.by_default else f'{each.name} (off)' for each in REGISTRY)}.",
)  # fmt: skip
@click.option(
    "--feature-gates", default="", metavar="LIST", help=f"NAME=true|false, by commas. {gates_help(GATES)}.",
)  # fmt: skip
@_scheduling
@_estimators
@_election
@click.option(
    "--kube-api-qps", type=click.FloatRange(0, 100_000), default=1000.0, show_default=True,
    help="Requests a second to the API server, lists and watches aside; 0 sets no limit.",
)  # fmt: skip
@click.option(
    "--kube-api-burst", type=click.IntRange(1, 100_000), default=2000, show_default=True, help="How many at once.",
)  # fmt: skip
@click.option(
    "--probe-bind", type=Address(), default="0.0.0.0:9080", show_default=True,
    help="Where /livez, /readyz and /metrics are served, in plain text.",
)  # fmt: skip
@log_level_option
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:  # noqa: ANN401 - click's values, each checked by its type
    """Schedule bindings, rebalance and preempt, beside a running control plane."""
    chosen = selected([part.strip() for part in given["controllers"].split(",") if part.strip()], REGISTRY)
    settings = _settings(given)
    registrations = gated(chosen, settings.gates)
    lease = _lease(given)
    logs.configure(given["log_level"])
    from berthmaster.controllers.run import RunOptions, run  # noqa: PLC0415 - `--help` must not wait for the client

    options = RunOptions(
        kubeconfig=given["kubeconfig"],
        context=given["context"],
        lease=lease,
        qps=given["kube_api_qps"],
        burst=given["kube_api_burst"],
        probe_host=given["probe_bind"][0],
        probe_port=given["probe_bind"][1],
        settings=settings,
    )
    ctx.exit(run(options, registrations))


def _settings(given: dict[str, Any]) -> ControllerSettings:
    gates = FeatureGates.parse(given["feature_gates"], GATES)
    return ControllerSettings(
        gates=gates,
        scheduler_name=given["scheduler_name"],
        profile=profile(
            given["plugins"], workload_affinity=gates.on(WORKLOAD_AFFINITY), keep_empty=given["keep_empty"]
        ),
        concurrent_bindings=given["concurrent_bindings"],
        concurrent_rebalancers=given["concurrent_rebalancers"],
        failover=given["failover"],
        failover_toleration_s=given["failover_toleration_s"],
        estimators=_estimator_settings(given) if given["enable_scheduler_estimator"] else None,
    )


def _estimator_settings(given: dict[str, Any]) -> EstimatorSettings:
    certificate, key = given["scheduler_estimator_cert_file"], given["scheduler_estimator_key_file"]
    if (certificate is None) != (key is None):
        raise click.UsageError("--scheduler-estimator-cert-file and --scheduler-estimator-key-file go together")
    return EstimatorSettings(
        namespace=given["scheduler_estimator_service_namespace"],
        prefix=given["scheduler_estimator_service_prefix"],
        port=given["scheduler_estimator_port"],
        timeout_s=given["scheduler_estimator_timeout_s"],
        ca_file=given["scheduler_estimator_ca_file"],
        cert_file=certificate,
        key_file=key,
        verify=not given["scheduler_estimator_insecure_skip_verify"],
    )


def _lease(given: dict[str, Any]) -> "LeaseOptions | None":
    from berthmaster.kube.lease import LeaseOptions, own_identity  # noqa: PLC0415 - only who is run stands for election

    if not given["leader_elect"]:
        return None
    return LeaseOptions(
        given["leader_elect_namespace"],
        given["leader_elect_name"],
        own_identity(),
        given["leader_elect_lease_s"],
        given["leader_elect_renew_s"],
        given["leader_elect_retry_s"],
    )
