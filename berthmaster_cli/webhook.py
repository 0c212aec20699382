"""``berthmaster webhook``: serve the admission webhook."""

from typing import Any, Final

import click

from berthmaster.runtime import logs
from berthmaster.runtime.feature_gates import POLICY_PREEMPTION, FeatureGates, gates_help
from berthmaster_cli.options import config_option, environment_text
from berthmaster_cli.rule_options import rule_levels, rule_options, scopes
from berthmaster_cli.serving_options import ServingDefaults, server_options_from, serving_options
from webhook.admission.settings import AdmissionSettings, WebhookMode

_ENVIRONMENT: Final = "BERTHMASTER_WEBHOOK"
_API_SERVER_TIMEOUT_S: Final = 30
_GATES: Final = (POLICY_PREEMPTION,)


@click.command(
    context_settings={"auto_envvar_prefix": _ENVIRONMENT},
    epilog=environment_text(_ENVIRONMENT, "--cert-file") + "Signals: TERM drains and stops.",
)
@config_option
@click.option(
    "--mode", type=click.Choice([each.value for each in WebhookMode]), default=WebhookMode.COMPANION.value,
    show_default=True, help="companion: run beside karmada-webhook. standalone: replace it.",
)  # fmt: skip
@serving_options(
    ServingDefaults(
        bind="0.0.0.0:8443",
        probe_bind="0.0.0.0:8080",
        tls_required=True,
        tls_min_version="1.3",
        threads=16,
        body_bytes=(7 * 2**20, 64 * 2**20),
        request_memory_mib=64,
        timeout_s=(2.5, _API_SERVER_TIMEOUT_S),
        timeout_help=" Keep it below timeoutSeconds of the webhook configuration.",
    )
)
@click.option(
    "--peer-checks/--no-peer-checks", default=False, show_default=True,
    help="In companion mode, run karmada-webhook's checks too, so that one response reports all errors.",
)  # fmt: skip
@click.option(
    "--drop-handler", "drop_handlers", multiple=True, metavar="USERNAME",
    help="A user that may clear the record of a priority drop, usually the controller. Repeatable.",
)  # fmt: skip
@click.option(
    "--feature-gates", default="", metavar="LIST",
    help="Feature gates, as NAME=true|false. With PolicyPreemption, which the controllers have too, a priority drop "
    f"causes a warning. {gates_help(_GATES)}.",
)  # fmt: skip
@click.option(
    "--max-object-values", type=click.IntRange(1000, 10_000_000), default=200_000, show_default=True,
    help="The largest number of JSON values of an object. Larger objects are denied.",
)  # fmt: skip
@rule_options
def command(**given: Any) -> None:  # noqa: ANN401 - click's values, each checked by its type
    """Serve the admission webhook over HTTPS."""
    settings = AdmissionSettings(
        mode=WebhookMode(given["mode"]),
        peer_checks=given["peer_checks"],
        levels=rule_levels(given["rules"]),
        scopes=scopes(given["cluster_scoped_kinds"], given["namespaced_kinds"]),
        limits=given["placement_limits"],
        scheduler_names=frozenset(given["scheduler_names"]),
        max_values=given["max_object_values"],
        drop_handlers=frozenset(given["drop_handlers"]),
        policy_preemption=FeatureGates.parse(given["feature_gates"], _GATES).on(POLICY_PREEMPTION),
    )
    logs.configure(given["log_level"])
    from webhook.serving import WebhookOptions, serve  # noqa: PLC0415 - `--help` must not import the server

    serve(WebhookOptions(server_options_from("berthmaster-webhook", given), given["max_body_bytes"], settings))
