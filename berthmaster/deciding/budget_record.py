"""Budgets as the lease of the controllers records them, so that others can show them. Pure."""

from collections.abc import Iterable
from typing import Final

from berthmaster.deciding.config import Budget, MoveSelector
from berthmaster.deciding.windows import Window, Windows
from berthmaster.model.decode import encode_json
from berthmaster.model.meta import Count, Value
from berthmaster.model.selector import LabelSelector, Requirement, SelectorRequirement

MAX_BYTES: Final = 32 * 2**10
"""The most bytes of all budgets in the record: the leader sends it with each renewal of the lease."""


class WindowRecord(Value, frozen=True):
    """A window of a budget; see ``windows.Window``."""

    schedule: str
    duration_s: Count
    time_zone: str = "UTC"


class BudgetRecord(Value, frozen=True):
    """A budget; see ``config.Budget``. Lists are those of its selector."""

    name: str
    namespaces: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    labels: tuple[SelectorRequirement, ...] = ()
    max_moves: Count | None = None
    max_moves_per_policy: Count | None = None
    max_moves_from_cluster: Count | None = None
    max_moves_to_cluster: Count | None = None
    replicas_percent: Count | None = None
    limits_failover: bool = False
    windows: tuple[WindowRecord, ...] = ()


def budget_records(budgets: Iterable[Budget]) -> tuple[BudgetRecord, ...] | None:
    """Return the records of budgets; None if they are too large for the lease."""
    records = tuple(map(_record, budgets))
    return records if len(encode_json(records)) <= MAX_BYTES else None


def budgets_of(records: Iterable[BudgetRecord]) -> tuple[Budget, ...]:
    """Return the budgets of records. Raises ``InputError`` if a window is invalid."""
    return tuple(map(_budget, records))


def _record(budget: Budget) -> BudgetRecord:
    selector = budget.selector
    return BudgetRecord(
        budget.name,
        tuple(sorted(selector.namespaces)),
        tuple(sorted(selector.policies)),
        tuple(sorted(selector.kinds)),
        tuple(map(_expression, selector.labels)),
        budget.max_moves,
        budget.max_moves_per_policy,
        budget.max_moves_from_cluster,
        budget.max_moves_to_cluster,
        budget.replicas_percent,
        budget.limits_failover,
        tuple(WindowRecord(each.schedule, each.duration_s, each.time_zone) for each in budget.windows.windows),
    )


def _expression(requirement: Requirement) -> SelectorRequirement:
    return SelectorRequirement(requirement.key, requirement.operator, tuple(sorted(requirement.values)))


def _budget(record: BudgetRecord) -> Budget:
    windows = (Window(each.schedule, each.duration_s, each.time_zone) for each in record.windows)
    labels = LabelSelector(match_expressions=record.labels)
    return Budget(
        record.name,
        MoveSelector.of(record.namespaces, record.policies, record.kinds, labels),
        record.max_moves,
        record.max_moves_per_policy,
        record.max_moves_from_cluster,
        record.max_moves_to_cluster,
        record.replicas_percent,
        record.limits_failover,
        Windows(windows),
    )
