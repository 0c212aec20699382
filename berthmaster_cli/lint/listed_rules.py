"""The rules that lint has, with their levels, as ``lint --rules`` lists them."""

from collections.abc import Iterator
from typing import Final

import msgspec

from berthmaster_cli.lint.findings import ACROSS_RULES, INVALID
from berthmaster_cli.lint.sources import UNREADABLE
from webhook.admission.catalog import ALL_RULES
from webhook.admission.linting import OWN_RULES, UNKNOWN_FIELD_SUMMARY, unknown_level
from webhook.admission.schema import UNKNOWN_FIELD
from webhook.admission.settings import AdmissionSettings, Level

LINT_RULE_IDS: Final = frozenset({*ACROSS_RULES, UNKNOWN_FIELD})
"""The rules that only lint has, and whose level can be set."""
_ALWAYS: Final = {
    UNREADABLE: "A file or document that cannot be read.",
    INVALID: "A value that the API server or karmada-webhook denies.",
    **OWN_RULES,
}
_LEVELS: Final = {Level.DENY: "error", Level.WARN: "warning", Level.OFF: "off"}


class ListedRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule as ``lint --rules`` lists it."""

    id: str
    level: str
    configurable: bool
    summary: str


class PrintedRules(msgspec.Struct, frozen=True):
    """All rules in JSON."""

    rules: list[ListedRule]


def listed_rules(settings: AdmissionSettings) -> Iterator[ListedRule]:
    """Yield every rule with the level that it has with these settings."""
    for rule, summary in _ALWAYS.items():
        yield ListedRule(id=rule, level="error", configurable=False, summary=summary)
    level = _LEVELS[unknown_level(settings)]
    yield ListedRule(id=UNKNOWN_FIELD, level=level, configurable=True, summary=UNKNOWN_FIELD_SUMMARY)
    for each in ALL_RULES:
        yield ListedRule(id=each.id, level=_LEVELS[each.level(settings)], configurable=True, summary=each.summary)
    for rule, summary in ACROSS_RULES.items():
        yield ListedRule(id=rule, level=_LEVELS[across_level(rule, settings)], configurable=True, summary=summary)


def across_level(rule: str, settings: AdmissionSettings) -> Level:
    """Return the level of a rule that needs several objects."""
    return settings.levels.get(rule, Level.WARN)
