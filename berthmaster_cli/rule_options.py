"""The options that say what admission checks, the same for the webhook and for lint."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import reduce
from typing import Any

import click

from berthmaster.model.kinds import Scope
from webhook.admission.rule_catalog import RULE_IDS
from webhook.admission.settings import Level


def rule_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--rule``, ``--cluster-scoped-kind`` and ``--namespaced-kind``."""
    options = (
        click.option(
            "--rule", "rules", multiple=True, metavar="ID=LEVEL",
            help="What becomes of a rule's findings: deny, warn or off. Repeatable.",
        ),
        click.option(
            "--cluster-scoped-kind", "cluster_scoped_kinds", multiple=True, metavar="[GROUP/]KIND",
            help="A custom kind without namespaces. Repeatable.",
        ),
        click.option(
            "--namespaced-kind", "namespaced_kinds", multiple=True, metavar="[GROUP/]KIND",
            help="A custom kind that lives in namespaces. Repeatable.",
        ),
    )  # fmt: skip
    return reduce(lambda decorated, option: option(decorated), reversed(options), command)


def rule_levels(texts: Iterable[str]) -> dict[str, Level]:
    """Levels by rule.

    Raises:
        click.UsageError: there is no such rule, or no such level.
    """
    levels = {}
    for text in texts:
        rule, _, level = text.partition("=")
        if rule not in RULE_IDS:
            close = get_close_matches(rule, RULE_IDS, n=1)
            hint = f"did you mean {close[0]}?" if close else "docs/webhook.md lists them all"
            raise click.UsageError(f"--rule: there is no rule {rule!r}; {hint}")
        if level not in set(Level):
            raise click.UsageError(f"--rule: {text!r} sets no level; accepted are {', '.join(Level)}")
        levels[rule] = Level(level)
    return levels


def scopes(cluster_scoped: Iterable[str], namespaced: Iterable[str]) -> dict[tuple[str, str], Scope]:
    """The scope of each kind that is named.

    Raises:
        click.UsageError: it is no kind, or named as both.
    """
    known: dict[tuple[str, str], Scope] = {}
    for scope, texts in ((Scope.CLUSTER, cluster_scoped), (Scope.NAMESPACED, namespaced)):
        for text in texts:
            group, _, kind = text.rpartition("/")
            if not kind.isalnum():
                raise click.UsageError(f"{text!r} is no kind; write GROUP/KIND, or KIND for the core group")
            if known.setdefault((group, kind), scope) is not scope:
                raise click.UsageError(f"{text!r} is named both as cluster-scoped and as namespaced")
    return known
