"""``berthmaster controllers``: run the controllers beside a control plane."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from berthmaster.controllers.registry import REGISTRY, SHADOW, gated, selected
from berthmaster.controllers.settings import GATES, ControllerSettings, EstimatorSettings
from berthmaster.model.comma_lists import comma_separated
from berthmaster.runtime import logs
from berthmaster.runtime.console_link import ConsoleLink
from berthmaster.runtime.feature_gates import MULTIPLE_POD_TEMPLATES, WORKLOAD_AFFINITY, FeatureGates, gates_help
from berthmaster.version import __version__
from berthmaster_cli.flags import option, options
from berthmaster_cli.ledger_options import RecordingFlags, recorder_from
from berthmaster_cli.option_variables import environment_text
from berthmaster_cli.options import ADDRESS, KubeconfigFlags, LogLevelFlags, certificate_pair, config_option
from berthmaster_cli.scheduling_options import PluginFlags, plugin_profile

if TYPE_CHECKING:
    from berthmaster.kube.lease import LeaseOptions
    from berthmaster.ledger.entries import Configuration

_ENVIRONMENT: Final = "BERTHMASTER_CONTROLLERS"
_PORT: Final = click.IntRange(1, 65535)
_CLOSE_S: Final = 5.0
_CLOSE_AT_ONCE_S: Final = 2.0
"""How long a process that has lost leadership writes to its ledger."""
_SECONDS: Final = click.FloatRange(0, min_open=True, max=3600)


class _ControllersFlags(PluginFlags, KubeconfigFlags, RecordingFlags, LogLevelFlags):
    console_url: str | None = option(
        "The address of the console. Events of the binding scheduler then end with the address of the workload's "
        "page.",
        metavar="URL",
    )  # fmt: skip
    scheduler_name: str = option(
        "Schedule bindings whose spec.schedulerName is this name.", "berthmaster", metavar="NAME"
    )
    concurrent_bindings: int = option(
        "The number of bindings that are reconciled concurrently.", 16, click.IntRange(1, 64)
    )
    concurrent_rebalancers: int = option(
        "The number of WorkloadRebalancers that are reconciled concurrently.", 2, click.IntRange(1, 64)
    )
    unknown_fields: Literal["hold", "ignore"] = option(
        "What to do with bindings whose placement has fields that this version does not know. hold: do not "
        "schedule them again; what runs stays. ignore: schedule them as if the fields were absent.",
        "hold", click.Choice(["hold", "ignore"]),
    )  # fmt: skip
    failover: Literal["off", "not-ready"] = option(
        "not-ready: replace assigned clusters that stay not ready.", "off", click.Choice(["off", "not-ready"])
    )
    failover_toleration_s: float = option(
        "The time that a cluster may be not ready before it is replaced, in seconds.",
        300.0, click.FloatRange(0, 86400),
    )  # fmt: skip
    moves_config: Path | None = option(
        "YAML file that says which workloads move by failback, drain and rebalancing, how many at "
        "once and when, and when nothing moves. It is read again when it changes. Default: no planned moves.",
    )  # fmt: skip
    enable_scheduler_estimator: bool = option(
        "Ask Karmada's scheduler estimators for the available replicas of each cluster."
    )
    scheduler_estimator_timeout_s: float = option(
        "The timeout for the responses of all estimators together, in seconds.", 3.0, _SECONDS
    )
    scheduler_estimator_service_namespace: str = option(
        "The namespace of the estimators' Services.", "karmada-system", metavar="NAME"
    )
    scheduler_estimator_service_prefix: str = option(
        "The prefix of the Services' names, which are PREFIX-CLUSTER.", "karmada-scheduler-estimator", metavar="PREFIX"
    )
    scheduler_estimator_port: int = option("The port of the estimators.", 10352, _PORT)
    scheduler_estimator_ca_file: Path | None = option("The CA certificates of the estimators to trust, in PEM.")
    scheduler_estimator_cert_file: Path | None = option("The client certificate for the estimators, in PEM.")
    scheduler_estimator_key_file: Path | None = option("The private key of that certificate, in PEM.")
    scheduler_estimator_insecure_skip_verify: bool = option("Do not verify the estimators' certificates.")
    leader_elect: bool = option(
        "Work only while holding a lease, so that several replicas can run.",
        default=True, names=("--leader-elect/--no-leader-elect",),
    )  # fmt: skip
    lease_namespace: str = option(
        "The namespace of the lease.", "karmada-system", names=("--lease-namespace", "--leader-elect-namespace"),
        metavar="NAME",
    )  # fmt: skip
    lease_name: str = option(
        "The name of the lease.", "berthmaster-controllers", names=("--lease-name", "--leader-elect-name"),
        metavar="NAME",
    )  # fmt: skip
    leader_elect_lease_s: int = option(
        "The time after the last renewal when other replicas may acquire the lease, in seconds.",
        15, click.IntRange(1, 3600),
    )  # fmt: skip
    leader_elect_renew_s: float = option(
        "The time that a leader continues without renewal, in seconds. It must be less than the lease.", 10.0, _SECONDS
    )
    leader_elect_retry_s: float = option(
        "The interval of attempts to acquire or renew the lease, in seconds.", 2.0, _SECONDS
    )
    controllers: str = option(
        "The controllers to run, as in kube-controller-manager: * for all that are on by default, NAME, -NAME. "
        f"Known are {', '.join(each.name + ('' if each.by_default else ' (off by default)') for each in REGISTRY)}.",
        "*", metavar="LIST",
    )  # fmt: skip
    feature_gates: str = option(
        f"Feature gates, as a comma-separated list of NAME=true|false. {gates_help(GATES)}.", "", metavar="LIST"
    )
    shadow: bool = option(
        "Write nothing, and need no lease. Decide for the bindings of --scheduler-name, such as default-scheduler. "
        "berthmaster shadow report shows where the decisions differ from those of that scheduler.",
    )  # fmt: skip
    kube_api_qps: float = option(
        "The limit of requests per second to the API server, without lists and watches; 0 for no limit.",
        1000.0, click.FloatRange(0, 100_000),
    )  # fmt: skip
    kube_api_burst: int = option(
        "The number of requests that may exceed that rate at once.", 2000, click.IntRange(1, 100_000)
    )
    probe_bind: tuple[str, int] = option(
        "The address for /livez, /readyz and /metrics, in plain text.", "0.0.0.0:9080", ADDRESS
    )


@click.command(
    context_settings={"auto_envvar_prefix": _ENVIRONMENT},
    epilog=environment_text(_ENVIRONMENT, "--kubeconfig")
    + "Signals: TERM and INT finish the current work, release the lease and stop. "
    "Exit codes: 0 stopped; 1 leadership was lost; 2 bad usage or input.",
)
@config_option
@options(
    _ControllersFlags,
    server="the API server that has the bindings",
    ledger="Record every decision in this database",
)
@click.pass_context
def command(ctx: click.Context, flags: _ControllersFlags, /) -> None:
    """Run the controllers: schedule bindings, rebalance workloads, preempt policies."""
    if flags.shadow:
        _check_shadow(ctx, flags)
    chosen = selected(comma_separated(flags.controllers), REGISTRY)
    settings = _settings(flags)
    registrations = [SHADOW] if flags.shadow else gated(chosen, settings.gates)
    lease = None if flags.shadow else _lease(flags)
    logs.configure(flags.log_level)
    from berthmaster.controllers.run import RunOptions, run  # noqa: PLC0415 - `--help` must not import the client

    recorder = None  # without a ledger its modules are not imported
    if flags.ledger is not None:
        recorder = recorder_from(flags.ledger, "controllers", _configuration(settings), flags)
    options = RunOptions(
        kubeconfig=flags.kubeconfig,
        context=flags.context,
        lease=lease,
        qps=flags.kube_api_qps,
        burst=flags.kube_api_burst,
        probe_host=flags.probe_bind[0],
        probe_port=flags.probe_bind[1],
        settings=settings,
        read_only=flags.shadow,
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


def _configuration(settings: ControllerSettings) -> "Configuration":
    """Return how a process decides, for its records."""
    from berthmaster.ledger.entries import Configuration  # noqa: PLC0415 - SQLAlchemy is imported only for a ledger

    profile = settings.profile
    return Configuration(
        __version__,
        tuple(profile.plugins.names),
        profile.keep_empty,
        profile.limits,
        settings.failover_after_s,
        settings.scheduler_name,
        settings.gates.as_mapping(),
    )


def _check_shadow(ctx: click.Context, flags: _ControllersFlags) -> None:
    """Refuse what has no meaning for a process that only compares."""
    chosen = click.core.ParameterSource.DEFAULT, click.core.ParameterSource.DEFAULT_MAP
    if ctx.get_parameter_source("controllers") not in chosen:
        raise click.UsageError("--controllers: with --shadow only the shadow scheduler runs; remove the option")
    if flags.moves_config is not None:
        raise click.UsageError("--moves-config: with --shadow nothing moves; remove the option")


def _settings(flags: _ControllersFlags) -> ControllerSettings:
    gates = FeatureGates.parse(flags.feature_gates, GATES)
    return ControllerSettings(
        gates=gates,
        scheduler_name=flags.scheduler_name,
        console=ConsoleLink(flags.console_url) if flags.console_url else None,
        profile=plugin_profile(
            flags, workload_affinity=gates.on(WORKLOAD_AFFINITY), component_sets=gates.on(MULTIPLE_POD_TEMPLATES)
        ),
        concurrent_bindings=flags.concurrent_bindings,
        concurrent_rebalancers=flags.concurrent_rebalancers,
        failover=flags.failover,
        unknown_fields=flags.unknown_fields,
        failover_toleration_s=flags.failover_toleration_s,
        moves_config=flags.moves_config,
        estimators=_estimator_settings(flags) if flags.enable_scheduler_estimator else None,
    )


def _estimator_settings(flags: _ControllersFlags) -> EstimatorSettings:
    pair = certificate_pair(
        flags.scheduler_estimator_cert_file, flags.scheduler_estimator_key_file, "scheduler-estimator-"
    )
    certificate, key = pair or (None, None)
    return EstimatorSettings(
        namespace=flags.scheduler_estimator_service_namespace,
        prefix=flags.scheduler_estimator_service_prefix,
        port=flags.scheduler_estimator_port,
        timeout_s=flags.scheduler_estimator_timeout_s,
        ca_file=flags.scheduler_estimator_ca_file,
        cert_file=certificate,
        key_file=key,
        verify=not flags.scheduler_estimator_insecure_skip_verify,
    )


def _lease(flags: _ControllersFlags) -> "LeaseOptions | None":
    from berthmaster.kube.lease import LeaseOptions, own_identity  # noqa: PLC0415 - the same

    if not flags.leader_elect:
        return None
    return LeaseOptions(
        flags.lease_namespace,
        flags.lease_name,
        own_identity(),
        flags.leader_elect_lease_s,
        flags.leader_elect_renew_s,
        flags.leader_elect_retry_s,
    )
