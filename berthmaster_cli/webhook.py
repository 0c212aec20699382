"""``berthmaster webhook``: serve the admission webhook."""

from typing import TYPE_CHECKING, Final

import click

from berthmaster.model.errors import InputError
from berthmaster.runtime import logs
from berthmaster.runtime.feature_gates import POLICY_PREEMPTION, FeatureGates, gates_help
from berthmaster_cli import serving_options
from berthmaster_cli.flags import Parsed, group, option, options
from berthmaster_cli.ledger_options import LedgerFlags
from berthmaster_cli.option_variables import environment_text
from berthmaster_cli.options import KubeconfigFlags, config_option
from berthmaster_cli.rule_options import RuleFlags, rule_levels, scopes
from webhook.admission.blast_radius import DEFAULT_RADIUS, BlastRadius
from webhook.admission.blast_radius import RULE as BLAST_RADIUS
from webhook.admission.settings import AdmissionSettings, Level, WebhookMode

if TYPE_CHECKING:
    from webhook.serving import ImpactOptions

_ENVIRONMENT: Final = "BERTHMASTER_WEBHOOK"
_API_SERVER_TIMEOUT_S: Final = 30
_GATES: Final = (POLICY_PREEMPTION,)


def _blast_radius(text: str) -> BlastRadius:
    try:
        return BlastRadius.parse(text)
    except ValueError as error:
        raise InputError(f"{error}.") from None


class _WebhookFlags(serving_options.ServingFlags, KubeconfigFlags, LedgerFlags, RuleFlags):
    mode: str = option(
        "companion: run beside karmada-webhook. standalone: replace it.",
        WebhookMode.COMPANION.value, click.Choice([each.value for each in WebhookMode]),
    )  # fmt: skip
    peer_checks: bool = option(
        "In companion mode, run karmada-webhook's checks too, so that one response reports all errors.",
        default=False, names=("--peer-checks/--no-peer-checks",),
    )  # fmt: skip
    drop_handlers: tuple[str, ...] = option(
        "A user that may clear the record of a priority drop, usually the controller. Repeatable.",
        names=("--drop-handler",), metavar="USERNAME",
    )  # fmt: skip
    feature_gates: str = option(
        "Feature gates, as NAME=true|false. With PolicyPreemption, a priority drop causes a warning; set it as in the "
        f"controllers. {gates_help(_GATES)}.",
        "", metavar="LIST",
    )  # fmt: skip
    max_object_values: int = option(
        "The largest number of JSON values of an object. Larger objects are denied.",
        200_000, click.IntRange(1000, 10_000_000),
    )  # fmt: skip
    max_policy_kib: int = option(
        "The largest size of a policy, in KiB. Larger policies are denied.", 512, click.IntRange(16, 4096)
    )
    impact_url: str | None = option(
        "Ask this extender what a change of a policy would move, as https://HOST:PORT. The answer is a warning.",
        metavar="URL",
    )  # fmt: skip
    impact_timeout_ms: int = option(
        "How long a review waits for the extender, in milliseconds. After that its impact is unknown. If the gate "
        "refuses such changes (--blast-radius-unjudged deny), a review waits until --request-timeout-s.",
        300, click.IntRange(20, 10_000),
    )  # fmt: skip
    impact: serving_options.ExtenderAccessFlags = group()
    impact_connections: int = option(
        "The most requests to the extender at once, in each process. Further reviews wait. A user has at most half of "
        "them, dry runs together a quarter.",
        8, click.IntRange(1, 64),
    )  # fmt: skip
    blast_radius: BlastRadius = option(
        "The most that a change of a policy may do, if --rule blast-radius is warn or deny: workloads that move "
        "(moved), their share of all workloads (percent), workloads left without a cluster (lost), copies that are "
        "deleted (deleted).",
        str(DEFAULT_RADIUS), Parsed("limits", _blast_radius), metavar="LIMITS",
    )  # fmt: skip
    blast_radius_unreachable: str = option(
        "What --rule blast-radius=deny does while the extender cannot judge any change: it cannot be reached, or it "
        "does not know the present.",
        Level.WARN.value, click.Choice([Level.WARN.value, Level.DENY.value]),
    )  # fmt: skip
    blast_radius_unjudged: str = option(
        "What --rule blast-radius=deny does with a change that the extender did not judge in time, or cannot judge.",
        Level.DENY.value, click.Choice([Level.WARN.value, Level.DENY.value]),
    )  # fmt: skip
    exempt_users: tuple[str, ...] = option(
        "A user who may exceed the blast radius. It is logged and counted. Repeatable.",
        names=("--blast-radius-exempt-user",), metavar="USERNAME",
    )  # fmt: skip
    exempt_groups: tuple[str, ...] = option(
        "A group of users who may exceed the blast radius. Repeatable.",
        names=("--blast-radius-exempt-group",), metavar="GROUP",
    )  # fmt: skip
    blast_radius_events: bool = option(
        "Record refusals, exemptions and accepted plans as events. This needs an API server and the right to create "
        "and patch events.",
    )  # fmt: skip


@click.command(
    context_settings={"auto_envvar_prefix": _ENVIRONMENT},
    epilog=environment_text(_ENVIRONMENT, "--cert-file") + "Signals: TERM drains and stops.",
)
@config_option
@options(
    _WebhookFlags,
    {
        "bind": {"default": "0.0.0.0:8443"},
        "probe_bind": {"default": "0.0.0.0:8080"},
        "cert_file": {"required": True},
        "key_file": {"required": True},
        "tls_min_version": {"default": "1.3"},
        "workers": {"default": 2},
        "threads": {"default": 16},
        "max_body_bytes": {"default": 7 * 2**20, "type": click.IntRange(1024, 64 * 2**20)},
        "request_memory_mib": {"default": 64},
        "request_timeout_s": {"default": 2.5, "type": click.FloatRange(0.1, _API_SERVER_TIMEOUT_S)},
    },
    ledger="Record refusals, accepted plans and exemptions in this database",
    copies="",
    timeout=" Keep it below timeoutSeconds of the webhook configuration.",
    server="the API server for events",
)
def command(flags: _WebhookFlags) -> None:
    """Serve the admission webhook over HTTPS."""
    impact, ledger = _impact_options(flags), flags.checked()
    settings = AdmissionSettings(
        mode=WebhookMode(flags.mode),
        peer_checks=flags.peer_checks,
        levels=rule_levels(flags.rules, frozenset({BLAST_RADIUS})),
        scopes=scopes(flags.cluster_scoped_kinds, flags.namespaced_kinds),
        limits=flags.placement_limits,
        scheduler_names=frozenset(flags.scheduler_names),
        max_values=flags.max_object_values,
        max_policy_bytes=flags.max_policy_kib * 2**10,
        drop_handlers=frozenset(flags.drop_handlers),
        blast_radius=flags.blast_radius,
        unreachable=Level(flags.blast_radius_unreachable),
        unjudged=Level(flags.blast_radius_unjudged),
        exempt_users=frozenset(flags.exempt_users),
        exempt_groups=frozenset(flags.exempt_groups),
        policy_preemption=FeatureGates.parse(flags.feature_gates, _GATES).on(POLICY_PREEMPTION),
    )
    if impact is None and settings.levels.get(BLAST_RADIUS, Level.OFF) is not Level.OFF:
        raise click.UsageError(f"--rule {BLAST_RADIUS} needs --impact-url: the extender computes the impact")
    logs.configure(flags.log_level)
    from webhook.serving import WebhookOptions, serve  # noqa: PLC0415 - `--help` must not import the server

    serve(
        WebhookOptions(
            serving_options.server_options_from("berthmaster-webhook", flags),
            flags.max_body_bytes,
            settings,
            impact,
            ledger,
        )
    )


def _impact_options(flags: _WebhookFlags) -> "ImpactOptions | None":
    """Return how to ask the extender; None without ``--impact-url``."""
    from webhook.serving import ImpactOptions  # noqa: PLC0415 - `--help` must not import the server

    if flags.impact_url is None:
        if flags.blast_radius_events:
            raise click.UsageError("--blast-radius-events needs --impact-url")
        return None
    access = serving_options.extender_access_from(flags.impact_url, flags.impact, "impact", flags.impact_connections)
    if flags.blast_radius_events:
        from berthmaster.kube.http_client import load_client  # noqa: PLC0415 - only events need an API client

        load_client(flags.kubeconfig, flags.context)  # an error here is clearer than one of each worker
    timeout_s = flags.impact_timeout_ms / 1000
    return ImpactOptions(access, timeout_s, flags.blast_radius_events, flags.kubeconfig, flags.context)
