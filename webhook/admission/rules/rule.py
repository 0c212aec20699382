"""Rules, their levels, and the sets of rules that reviews run."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeVar

from berthmaster.model.policy import Policy
from webhook.admission.field_problem import FieldProblem, bounded
from webhook.admission.settings import AdmissionSettings, Level

S = TypeVar("S")
_EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})


class ReviewedPolicy(NamedTuple):
    """The subject of the rules about Karmada's policies.

    Attributes:
        old: the stored policy; None for a new policy.
        namespace: the request's namespace; empty for a ClusterPropagationPolicy.
        placement: the placement as dicts and lists, with the fields that no type has.
    """

    policy: Policy
    old: Policy | None
    namespace: str
    settings: AdmissionSettings
    placement: Mapping[str, Any] = _EMPTY


@dataclass(frozen=True, slots=True, eq=False)
class AdmissionRule(Generic[S]):
    """A probable mistake that Karmada accepts. Each rule is equal to itself only.

    Attributes:
        standalone: the level in standalone mode, unless configured; None for the default. A denial in that mode should
            be one that karmada-webhook also makes.
        part: returns what the rule is about. The rule does not run if that is absent or empty. None for the subject.
    """

    id: str
    summary: str
    check: Callable[[S], Iterator[FieldProblem]]
    default: Level = Level.WARN
    standalone: Level | None = None
    part: Callable[[S], object] | None = None

    def level(self, settings: AdmissionSettings) -> Level:
        configured = settings.levels.get(self.id)
        if configured is not None:
            return configured
        return self.standalone if settings.standalone and self.standalone is not None else self.default


def rule(
    rule_id: str, summary: str, *, default: Level = Level.WARN, standalone: Level | None = None
) -> Callable[[Callable[[S], Iterator[FieldProblem]]], AdmissionRule[S]]:
    """Return a decorator that makes a rule of a check."""
    return lambda check: AdmissionRule(rule_id, summary, check, default, standalone)


def about(part: Callable[[S], object], rules: Iterable[AdmissionRule[S]]) -> tuple[AdmissionRule[S], ...]:
    """Return rules that run only if a part of their subject is there."""
    return tuple(replace(rule, part=part) for rule in rules)


class Findings(NamedTuple):
    """The problems that rules found, by the level of the rule."""

    denials: tuple[FieldProblem, ...]
    warnings: tuple[FieldProblem, ...]

    def joined(self, other: "Findings") -> "Findings":
        """Return these findings and, after them, others."""
        if not self.denials and not self.warnings:
            return other
        return Findings((*self.denials, *other.denials), (*self.warnings, *other.warnings))


class RuleSet(Generic[S]):
    """The enabled rules with their levels."""

    __slots__ = ("_parts",)

    def __init__(self, rules: Iterable[AdmissionRule[S]], settings: AdmissionSettings) -> None:
        enabled = [rule for rule in rules if rule.level(settings) is not Level.OFF]
        self._parts = [
            (part, [(rule.id, rule.check, rule.level(settings) is Level.DENY) for rule in some])
            for part, some in groupby(enabled, attrgetter("part"))
        ]

    def run(self, subject: S) -> Findings:
        """Return the problems of a subject. The number of problems of each rule is bounded."""
        denials: list[FieldProblem] = []
        warnings: list[FieldProblem] = []
        for part, checks in self._parts:
            if part is not None and not part(subject):
                continue
            for rule_id, check, denies in checks:
                problems = check(subject)
                for first in problems:  # most rules find nothing
                    (denials if denies else warnings).extend(bounded(chain((first,), problems), rule_id))
        return Findings(tuple(denials), tuple(warnings))
