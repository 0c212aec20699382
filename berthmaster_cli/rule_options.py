"""The options for admission rules, and what the rules find in stored policies for services without the webhook."""

from collections.abc import Callable, Iterable, Sequence

import click

from berthmaster.model.decode import builtins
from berthmaster.model.hints import closest
from berthmaster.model.kinds import Scope
from berthmaster.model.placement_limits import PlacementLimits
from berthmaster.model.policy import Policy
from berthmaster.model.policy_defaults import DEFAULT_NAMESPACE
from berthmaster.model.unsupported_placement import PLACEMENT, unsupported_message, unsupported_parts
from berthmaster.views.policy_rows import PolicyFinding
from berthmaster_cli.flags import option
from berthmaster_cli.placement_limit_options import PlacementLimitsFlags
from webhook.admission.catalog import RULE_IDS
from webhook.admission.context import AdmissionContext
from webhook.admission.linting import lint
from webhook.admission.settings import AdmissionSettings, Level

_UNSUPPORTED = "unsupported-placement"


class RuleFlags(PlacementLimitsFlags):
    """The admission rules."""

    rules: tuple[str, ...] = option(
        "The level of a rule: deny, warn or off. `berthmaster lint --rules` lists the rules with their default "
        "levels. Repeatable.",
        names=("--rule",), metavar="ID=LEVEL",
    )  # fmt: skip
    cluster_scoped_kinds: tuple[str, ...] = option(
        "A custom kind that is cluster-scoped, for rules about the resources that a policy selects. Repeatable.",
        names=("--cluster-scoped-kind",), metavar="[GROUP/]KIND",
    )  # fmt: skip
    namespaced_kinds: tuple[str, ...] = option(
        "A custom kind that is namespaced, for rules about the resources that a policy selects. Repeatable.",
        names=("--namespaced-kind",), metavar="[GROUP/]KIND",
    )  # fmt: skip
    scheduler_names: tuple[str, ...] = option(
        "The spec.schedulerName of our scheduler: a policy that names it is denied if its "
        "placement has fields that this version does not know. Repeatable.",
        ("berthmaster",), names=("--scheduler-name",), metavar="NAME",
    )  # fmt: skip


def rule_levels(texts: Iterable[str], more: frozenset[str] = frozenset()) -> dict[str, Level]:
    """Return the level of each rule in ``--rule``. ``more``: ids of rules that the webhook does not have."""
    levels, known = {}, RULE_IDS | more
    for text in texts:
        rule, _, level = text.partition("=")
        if rule not in known:
            close = closest(rule, known)
            hint = f"did you mean {close}?" if close else "`berthmaster lint --rules` lists all rules"
            raise click.UsageError(f"--rule: unknown rule {rule!r}; {hint}")
        if level not in set(Level):
            raise click.UsageError(f"--rule: {text!r} has no valid level; accepted are {', '.join(Level)}")
        levels[rule] = Level(level)
    return levels


def scopes(cluster_scoped: Iterable[str], namespaced: Iterable[str]) -> dict[tuple[str, str], Scope]:
    """Return the scope of each kind, by group and kind."""
    known: dict[tuple[str, str], Scope] = {}
    for scope, texts in ((Scope.CLUSTER, cluster_scoped), (Scope.NAMESPACED, namespaced)):
        for text in texts:
            group, _, kind = text.rpartition("/")
            if not kind.isalnum():
                raise click.UsageError(f"{text!r} is not a kind; write GROUP/KIND, or KIND for the core group")
            if known.setdefault((group, kind), scope) is not scope:
                raise click.UsageError(f"{text!r} is both cluster-scoped and namespaced")
    return known


def policy_findings(limits: PlacementLimits) -> Callable[[Policy], Sequence[PolicyFinding]]:
    """Return a pure function that says what the rules find in a stored policy, at their default levels."""
    context = AdmissionContext(AdmissionSettings(peer_checks=True, limits=limits), lambda: "")

    def findings(policy: Policy) -> list[PolicyFinding]:
        parts = unsupported_parts(policy.spec.placement)
        if parts:
            return [PolicyFinding(_UNSUPPORTED, "error", PLACEMENT, unsupported_message(parts))]
        linted = lint(builtins(policy), context, policy.metadata.namespace or DEFAULT_NAMESPACE)
        if linted is None:
            return []
        return [
            PolicyFinding(each.rule or "invalid", severity, each.path, each.detail)
            for severity, problems in (("error", linted.errors), ("warning", linted.warnings))
            for each in problems
        ]

    return findings
