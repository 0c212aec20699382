"""The context of reviews: the settings, and the rules that they enable."""

from collections.abc import Callable
from copy import copy
from typing import Any, TypeVar

from webhook.admission.impact import ImpactSource
from webhook.admission.rules.rule import AdmissionRule, RuleSet
from webhook.admission.settings import AdmissionSettings

S = TypeVar("S")


class AdmissionContext:
    """The input of every review, besides its request. Nothing of it changes; it keeps each set of rules once made."""

    __slots__ = ("_enabled", "impact", "new_id", "settings")

    def __init__(
        self, settings: AdmissionSettings, new_id: Callable[[], str], impact: ImpactSource | None = None
    ) -> None:
        self.settings = settings
        self.new_id = new_id
        self.impact = impact
        self._enabled: dict[tuple[AdmissionRule[Any], ...], RuleSet[Any]] = {}

    def enabled(self, rules: tuple[AdmissionRule[S], ...]) -> RuleSet[S]:
        """Return those of the rules that the settings enable."""
        found = self._enabled.get(rules)
        if found is None:
            found = self._enabled[rules] = RuleSet(rules, self.settings)
        return found

    def asking(self, impact: ImpactSource) -> "AdmissionContext":
        other = copy(self)
        other.impact = impact
        return other
