"""``berthmaster controllers``: run the controllers beside a control plane."""

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from berthmaster.controllers.registry import REGISTRY, SHADOW, gated, selected
from berthmaster.controllers.settings import GATES, ControllerSettings, EstimatorSettings
from berthmaster.runtime import logs
from berthmaster.runtime.console_link import ConsoleLink
from berthmaster.runtime.feature_gates import MULTIPLE_POD_TEMPLATES, WORKLOAD_AFFINITY, FeatureGates, gates_help
from berthmaster_cli.environment import environment_text
from berthmaster_cli.inputs import plugin_options, profile_from
from berthmaster_cli.ledger_options import configuration_of, recorder_from, recording_options, require_extra
from berthmaster_cli.options import (
    FILE,
    Address,
    certificate_pair,
    config_option,
    kubeconfig_options,
    log_level_option,
    option_group,
)

if TYPE_CHECKING:
    from berthmaster.kube.lease import LeaseOptions
    from berthmaster.ledger.entries import Configuration

_ENVIRONMENT: Final = "BERTHMASTER_CONTROLLERS"
_PORT: Final = click.IntRange(1, 65535)
_CLOSE_S: Final = 5.0
_CLOSE_AT_ONCE_S: Final = 2.0
"""How long a process that has lost leadership writes to its ledger."""
_SECONDS: Final = click.FloatRange(0, min_open=True, max=3600)

_scheduling_options = option_group(
    click.option(
        "--console-url", metavar="URL",
        help="The address of the console. Events of the binding scheduler then end with the address of the workload's "
        "page.",
    ),
    click.option(
        "--scheduler-name", default="berthmaster", show_default=True, metavar="NAME",
        help="Schedule bindings whose spec.schedulerName is this name.",
    ),
    click.option(
        "--concurrent-bindings", type=click.IntRange(1, 64), default=16, show_default=True,
        help="The number of bindings that are reconciled concurrently.",
    ),
    click.option(
        "--concurrent-rebalancers", type=click.IntRange(1, 64), default=2, show_default=True,
        help="The number of WorkloadRebalancers that are reconciled concurrently.",
    ),
    plugin_options,
    click.option(
        "--unknown-fields", type=click.Choice(["hold", "ignore"]), default="hold", show_default=True,
        help="What to do with bindings whose placement has fields that this version does not know. hold: do not "
        "schedule them again; what runs stays. ignore: schedule them as if the fields were absent.",
    ),
    click.option(
        "--failover", type=click.Choice(["off", "not-ready"]), default="off", show_default=True,
        help="not-ready: replace assigned clusters that stay not ready.",
    ),
    click.option(
        "--failover-toleration-s", type=click.FloatRange(0, 86400), default=300.0, show_default=True,
        help="The time that a cluster may be not ready before it is replaced, in seconds.",
    ),
    click.option(
        "--moves-config", type=FILE, help="YAML file that says which workloads move by failback and drain, how many at "
        "once and when, and when nothing moves. It is read again when it changes. Default: no planned moves.",
    ),
)  # fmt: skip
_estimator_options = option_group(
    click.option(
        "--enable-scheduler-estimator", is_flag=True,
        help="Ask Karmada's scheduler estimators for the available replicas of each cluster.",
    ),
    click.option(
        "--scheduler-estimator-timeout-s", type=_SECONDS, default=3.0, show_default=True,
        help="The timeout for the responses of all estimators together, in seconds.",
    ),
    click.option(
        "--scheduler-estimator-service-namespace", default="karmada-system", show_default=True, metavar="NAME",
        help="The namespace of the estimators' Services.",
    ),
    click.option(
        "--scheduler-estimator-service-prefix", default="karmada-scheduler-estimator", show_default=True,
        metavar="PREFIX", help="The prefix of the Services' names, which are PREFIX-CLUSTER.",
    ),
    click.option(
        "--scheduler-estimator-port", type=_PORT, default=10352, show_default=True, help="The port of the estimators.",
    ),
    click.option(
        "--scheduler-estimator-ca-file", type=FILE, help="The CA certificates of the estimators to trust, in PEM.",
    ),
    click.option(
        "--scheduler-estimator-cert-file", type=FILE, help="The client certificate for the estimators, in PEM.",
    ),
    click.option("--scheduler-estimator-key-file", type=FILE, help="The private key of that certificate, in PEM."),
    click.option(
        "--scheduler-estimator-insecure-skip-verify", is_flag=True, help="Do not verify the estimators' certificates.",
    ),
)  # fmt: skip
_election_options = option_group(
    click.option(
        "--leader-elect/--no-leader-elect", default=True, show_default=True,
        help="Work only while holding a lease, so that several replicas can run.",
    ),
    click.option(
        "--leader-elect-namespace", default="karmada-system", show_default=True, metavar="NAME",
        help="The namespace of the lease.",
    ),
    click.option(
        "--leader-elect-name", default="berthmaster-controllers", show_default=True, metavar="NAME",
        help="The name of the lease.",
    ),
    click.option(
        "--leader-elect-lease-s", type=click.IntRange(1, 3600), default=15, show_default=True,
        help="The time after the last renewal when other replicas may acquire the lease, in seconds.",
    ),
    click.option(
        "--leader-elect-renew-s", type=_SECONDS, default=10.0, show_default=True,
        help="The time that a leader continues without renewal, in seconds. It must be less than the lease.",
    ),
    click.option(
        "--leader-elect-retry-s", type=_SECONDS, default=2.0, show_default=True,
        help="The interval of attempts to acquire or renew the lease, in seconds.",
    ),
)  # fmt: skip


@click.command(
    context_settings={"auto_envvar_prefix": _ENVIRONMENT},
    epilog=environment_text(_ENVIRONMENT, "--kubeconfig")
    + "Signals: TERM and INT finish the current work, release the lease and stop. "
    "Exit codes: 0 stopped; 1 leadership was lost; 2 bad usage or input.",
)
@config_option
@kubeconfig_options("the API server that has the bindings")
@click.option(
    "--controllers", default="*", show_default=True, metavar="LIST",
    help="The controllers to run, as in kube-controller-manager: * for all that are on by default, NAME, -NAME. "
    f"Known are {', '.join(each.name if each.by_default else f'{each.name} (off by default)' for each in REGISTRY)}.",
)  # fmt: skip
@click.option(
    "--feature-gates", default="", metavar="LIST",
    help=f"Feature gates, as a comma-separated list of NAME=true|false. {gates_help(GATES)}.",
)  # fmt: skip
@click.option(
    "--shadow", is_flag=True,
    help="Write nothing, and need no lease. Decide for the bindings of --scheduler-name, such as default-scheduler. "
    "berthmaster shadow report shows where the decisions differ from those of that scheduler.",
)  # fmt: skip
@_scheduling_options
@_estimator_options
@_election_options
@click.option(
    "--kube-api-qps", type=click.FloatRange(0, 100_000), default=1000.0, show_default=True,
    help="The limit of requests per second to the API server, without lists and watches; 0 for no limit.",
)  # fmt: skip
@click.option(
    "--kube-api-burst", type=click.IntRange(1, 100_000), default=2000, show_default=True,
    help="The number of requests that may exceed that rate at once.",
)  # fmt: skip
@click.option(
    "--probe-bind", type=Address(), default="0.0.0.0:9080", show_default=True,
    help="The address for /livez, /readyz and /metrics, in plain text.",
)  # fmt: skip
@recording_options
@log_level_option
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:  # noqa: ANN401 - click's values, each checked by its type
    """Run the controllers: schedule bindings, rebalance workloads, preempt policies."""
    if given["shadow"]:
        _check_shadow(ctx, given)
    chosen = selected([part.strip() for part in given["controllers"].split(",") if part.strip()], REGISTRY)
    settings = _settings(given)
    registrations = [SHADOW] if given["shadow"] else gated(chosen, settings.gates)
    lease = None if given["shadow"] else _lease(given)
    logs.configure(given["log_level"])
    from berthmaster.controllers.run import RunOptions, run  # noqa: PLC0415 - `--help` must not import the client

    recorder = recorder_from(given, "controllers", _configuration(settings), retains=True) if _records(given) else None
    options = RunOptions(
        kubeconfig=given["kubeconfig"],
        context=given["context"],
        lease=lease,
        qps=given["kube_api_qps"],
        burst=given["kube_api_burst"],
        probe_host=given["probe_bind"][0],
        probe_port=given["probe_bind"][1],
        settings=settings,
        read_only=given["shadow"],
        decisions=recorder,
        on_lost=(lambda: None) if recorder is None else partial(recorder.close, _CLOSE_AT_ONCE_S),
    )
    if recorder is None:
        ctx.exit(run(options, registrations))
    recorder.start()
    try:
        code = run(options, registrations)
    finally:
        recorder.close(_CLOSE_S)
    ctx.exit(code)


def _records(given: dict[str, Any]) -> bool:
    """Return whether decisions are recorded. Without a ledger its modules are not imported."""
    if given["ledger_url"] is None:
        return False
    require_extra()
    return True


def _configuration(settings: ControllerSettings) -> "Configuration":
    return configuration_of(settings.profile, settings.gates, settings.failover_after_s, settings.scheduler_name)


def _check_shadow(ctx: click.Context, given: dict[str, Any]) -> None:
    """Refuse what has no meaning for a process that only compares."""
    chosen = click.core.ParameterSource.DEFAULT, click.core.ParameterSource.DEFAULT_MAP
    if ctx.get_parameter_source("controllers") not in chosen:
        raise click.UsageError("--controllers: with --shadow only the shadow scheduler runs; remove the option")
    if given["moves_config"] is not None:
        raise click.UsageError("--moves-config: with --shadow nothing moves; remove the option")


def _settings(given: dict[str, Any]) -> ControllerSettings:
    gates = FeatureGates.parse(given["feature_gates"], GATES)
    return ControllerSettings(
        gates=gates,
        scheduler_name=given["scheduler_name"],
        console=ConsoleLink(given["console_url"]) if given["console_url"] else None,
        profile=profile_from(
            given, workload_affinity=gates.on(WORKLOAD_AFFINITY), component_sets=gates.on(MULTIPLE_POD_TEMPLATES)
        ),
        concurrent_bindings=given["concurrent_bindings"],
        concurrent_rebalancers=given["concurrent_rebalancers"],
        failover=given["failover"],
        unknown_fields=given["unknown_fields"],
        failover_toleration_s=given["failover_toleration_s"],
        moves_config=given["moves_config"],
        estimators=_estimator_settings(given) if given["enable_scheduler_estimator"] else None,
    )


def _estimator_settings(given: dict[str, Any]) -> EstimatorSettings:
    pair = certificate_pair(given, "scheduler-estimator-cert-file", "scheduler-estimator-key-file")
    certificate, key = pair or (None, None)
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
    from berthmaster.kube.lease import LeaseOptions, own_identity  # noqa: PLC0415 - the same

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
