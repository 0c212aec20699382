"""``berthmaster webhook``: serve the admission webhook."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from berthmaster.runtime import logs
from berthmaster.runtime.feature_gates import POLICY_PREEMPTION, FeatureGates, gates_help
from berthmaster_cli.environment import environment_text
from berthmaster_cli.extender_options import extender_access_from, extender_options
from berthmaster_cli.ledger_options import checked_url, ledger_options
from berthmaster_cli.options import config_option, kubeconfig_options
from berthmaster_cli.rule_options import rule_levels, rule_options, scopes
from berthmaster_cli.serving_options import ServingDefaults, server_options_from, serving_options
from webhook.admission.blast_radius import DEFAULT_RADIUS, BlastRadius
from webhook.admission.blast_radius import RULE as BLAST_RADIUS
from webhook.admission.settings import AdmissionSettings, Level, WebhookMode

if TYPE_CHECKING:
    from webhook.serving import ImpactOptions

_ENVIRONMENT: Final = "BERTHMASTER_WEBHOOK"
_API_SERVER_TIMEOUT_S: Final = 30
_GATES: Final = (POLICY_PREEMPTION,)


class BlastRadiusType(click.ParamType[BlastRadius]):
    """Limits of a change, as in ``moved=50,percent=20``."""

    name = "limits"

    def convert(
        self, value: str | BlastRadius, param: click.Parameter | None, ctx: click.Context | None
    ) -> BlastRadius:
        try:
            return value if isinstance(value, BlastRadius) else BlastRadius.parse(value)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)


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
    help="Feature gates, as NAME=true|false. With PolicyPreemption, a priority drop causes a warning; set it as in the "
    f"controllers. {gates_help(_GATES)}.",
)  # fmt: skip
@click.option(
    "--max-object-values", type=click.IntRange(1000, 10_000_000), default=200_000, show_default=True,
    help="The largest number of JSON values of an object. Larger objects are denied.",
)  # fmt: skip
@click.option(
    "--impact-url",
    metavar="URL",
    help="Ask this extender what a change of a policy would move, as https://HOST:PORT. The answer is a warning.",
)
@click.option(
    "--impact-timeout-ms",
    type=click.IntRange(20, 10_000),
    default=300,
    show_default=True,
    help="How long a review waits for the extender, in milliseconds. After that its impact is unknown. If the gate "
    "refuses such changes (--blast-radius-unjudged deny), a review waits until --request-timeout-s.",
)
@extender_options("impact")
@click.option(
    "--impact-connections",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    help="The most requests to the extender at once, in each process. Further reviews wait. A user has at most half of "
    "them, dry runs together a quarter.",
)
@click.option(
    "--blast-radius",
    type=BlastRadiusType(),
    default=str(DEFAULT_RADIUS),
    show_default=True,
    metavar="LIMITS",
    help="The most that a change of a policy may do, if --rule blast-radius is warn or deny: workloads that move "
    "(moved), their share of all workloads (percent), workloads left without a cluster (lost), copies that are "
    "deleted (deleted).",
)
@click.option(
    "--blast-radius-unreachable",
    type=click.Choice([Level.WARN.value, Level.DENY.value]),
    default=Level.WARN.value,
    show_default=True,
    help="What --rule blast-radius=deny does while the extender cannot judge any change: it cannot be reached, or it "
    "does not know the present.",
)
@click.option(
    "--blast-radius-unjudged",
    type=click.Choice([Level.WARN.value, Level.DENY.value]),
    default=Level.DENY.value,
    show_default=True,
    help="What --rule blast-radius=deny does with a change that the extender did not judge in time, or cannot judge.",
)
@click.option(
    "--blast-radius-exempt-user",
    "exempt_users",
    multiple=True,
    metavar="USERNAME",
    help="A user who may exceed the blast radius. It is logged and counted. Repeatable.",
)
@click.option(
    "--blast-radius-exempt-group",
    "exempt_groups",
    multiple=True,
    metavar="GROUP",
    help="A group of users who may exceed the blast radius. Repeatable.",
)
@click.option(
    "--blast-radius-events",
    is_flag=True,
    help="Record refusals, exemptions and accepted plans as events. This needs an API server and the right to create "
    "and patch events.",
)
@kubeconfig_options("the API server for events")
@ledger_options("Record refusals, accepted plans and exemptions in this database. Needs the extra ledger")
@rule_options
def command(**given: Any) -> None:  # noqa: ANN401 - click's values, each checked by its type
    """Serve the admission webhook over HTTPS."""
    impact, ledger = _impact_options(given), checked_url(given["ledger_url"])
    settings = AdmissionSettings(
        mode=WebhookMode(given["mode"]),
        peer_checks=given["peer_checks"],
        levels=rule_levels(given["rules"], frozenset({BLAST_RADIUS})),
        scopes=scopes(given["cluster_scoped_kinds"], given["namespaced_kinds"]),
        limits=given["placement_limits"],
        scheduler_names=frozenset(given["scheduler_names"]),
        max_values=given["max_object_values"],
        drop_handlers=frozenset(given["drop_handlers"]),
        blast_radius=given["blast_radius"],
        unreachable=Level(given["blast_radius_unreachable"]),
        unjudged=Level(given["blast_radius_unjudged"]),
        exempt_users=frozenset(given["exempt_users"]),
        exempt_groups=frozenset(given["exempt_groups"]),
        policy_preemption=FeatureGates.parse(given["feature_gates"], _GATES).on(POLICY_PREEMPTION),
    )
    if impact is None and settings.levels.get(BLAST_RADIUS, Level.OFF) is not Level.OFF:
        raise click.UsageError(f"--rule {BLAST_RADIUS} needs --impact-url: the extender computes the impact")
    logs.configure(given["log_level"])
    from webhook.serving import WebhookOptions, serve  # noqa: PLC0415 - `--help` must not import the server

    serve(
        WebhookOptions(
            server_options_from("berthmaster-webhook", given), given["max_body_bytes"], settings, impact, ledger
        )
    )


def _impact_options(given: Mapping[str, Any]) -> "ImpactOptions | None":
    """Return how to ask the extender; None without ``--impact-url``."""
    from webhook.serving import ImpactOptions  # noqa: PLC0415 - `--help` must not import the server

    if given["impact_url"] is None:
        if given["blast_radius_events"]:
            raise click.UsageError("--blast-radius-events needs --impact-url")
        return None
    access = extender_access_from(given, "impact", given["impact_connections"])
    if given["blast_radius_events"]:
        from berthmaster.kube.http_client import load_client  # noqa: PLC0415 - only events need an API client

        load_client(given["kubeconfig"], given["context"])  # an error here is clearer than one of each worker
    timeout_s = given["impact_timeout_ms"] / 1000
    return ImpactOptions(access, timeout_s, given["blast_radius_events"], given["kubeconfig"], given["context"])
