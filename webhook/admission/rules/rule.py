"""What a rule is."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from webhook.admission.karmada.policy import Policy
from webhook.admission.problem import Problem
from webhook.admission.settings import Level, Settings

S = TypeVar("S")


class PolicyChange(NamedTuple):
    """What rules about Karmada's policies look at.

    Attributes:
        policy: the policy with its defaults.
        old: what it was; None when it is created.
        namespace: the request's; empty for a ClusterPropagationPolicy.
        settings: for what is known of kinds.
    """

    policy: Policy
    old: Policy | None
    namespace: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class Rule(Generic[S]):
    """Something that can be stored, yet hardly does what its author wants.

    Attributes:
        id: how configuration and messages call it.
        summary: what it finds, for the documentation.
        check: yields what it finds in a subject.
        default: its level unless configured.
        standalone: its level in standalone mode unless configured, where that differs: a verdict there is
            karmada-webhook's.
    """

    id: str
    summary: str
    check: Callable[[S], Iterator[Problem]]
    default: Level = Level.WARN
    standalone: Level | None = None

    def level(self, settings: Settings) -> Level:
        """What becomes of its findings."""
        configured = settings.levels.get(self.id)
        if configured is not None:
            return configured
        return self.standalone if settings.standalone and self.standalone is not None else self.default


class Findings(NamedTuple):
    """What rules found, by what becomes of it."""

    denials: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


class RuleSet(Generic[S]):
    """Rules with their levels settled, and without those that are off."""

    __slots__ = ("_checks",)

    def __init__(self, rules: Iterable[Rule[S]], settings: Settings) -> None:
        levels = [(rule, rule.level(settings)) for rule in rules]
        self._checks = [(rule.id, rule.check, level is Level.DENY) for rule, level in levels if level is not Level.OFF]

    def run(self, subject: S) -> Findings:
        """What the rules find in a subject."""
        denials: list[Problem] = []
        warnings: list[Problem] = []
        for rule_id, check, denies in self._checks:
            for problem in check(subject):
                (denials if denies else warnings).append(problem._replace(rule=rule_id))
        return Findings(tuple(denials), tuple(warnings))
