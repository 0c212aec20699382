"""The problems of the fleet as the page Fleet shows them: pure functions of what the extender and the ledger say."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple, assert_never

from flask import url_for

from berthmaster.ledger.records import HistoryRow
from berthmaster.model.meta import CLUSTER_SCOPED, moment_of
from berthmaster.native_api.fleet import Restriction
from berthmaster.native_api.problems import Damage, FleetProblem, ProblemList, Subject, worst_first
from berthmaster.views.texts import count_text
from console.pages.record_words import recorded_trigger_words
from console.pages.workload_words import sentence

SHOWN: Final = 4
"""The most problems of one damage, unless the visitor asks for all."""
WINDOW: Final = timedelta(hours=24)
"""How far back the records reach that say what changed."""
RECORDS: Final = 200
_SLACK: Final = timedelta(minutes=1)
"""A condition is written after the decision that it is about, and clocks differ."""
_REFUSAL: Final = "refusal"
_DECISION: Final = "decision"
_UNJUDGED: Final = "unjudged"
_TITLES: Final[Mapping[Damage, str]] = {
    Damage.NO_COPY: "No copy runs",
    Damage.SHORT: "Too few replicas run",
    Damage.NOT_PREFERRED: "Not in the preferred group",
    Damage.MOVING: "Moves that take too long",
    Damage.CONTROL: "Control plane",
    Damage.NONE: "Clusters that are not ready, without damage",
}
_BADGES: Final[Mapping[Damage, str]] = {
    Damage.NO_COPY: "bad",
    Damage.SHORT: "bad",
    Damage.NOT_PREFERRED: "warn",
    Damage.MOVING: "warn",
    Damage.CONTROL: "warn",
    Damage.NONE: "off",
}


class ChangeKind(Enum):
    """What changed before a problem began."""

    POLICY = "policy"
    """Its policy, or the priority of its policy, was changed."""
    TAKEOVER = "takeover"
    """Another policy took the workload."""
    DECISION = "decision"
    """The scheduler decided on the workload."""


_EDITS: Final[Mapping[str, ChangeKind]] = {
    "plan-accepted": ChangeKind.POLICY,
    "exemption": ChangeKind.POLICY,
    "priority-drop": ChangeKind.POLICY,
    "preemption": ChangeKind.TAKEOVER,
}


class ChangeBefore(NamedTuple):
    """A record of the ledger from just before a problem began. ``user`` is who did it; empty if that is not on record.

    Attributes:
        text: what happened, a clause.
        policy: the policy that changed or took the workload; empty for a decision.
    """

    kind: ChangeKind
    record: HistoryRow
    time: datetime
    user: str
    text: str
    policy: str


class ShownProblem(NamedTuple):
    """A problem with its words and its links.

    Attributes:
        changes: what changed just before, the latest first.
        address: the page about its subject.
        workloads: the list of the workloads that have it; empty if it is about one.
    """

    problem: FleetProblem
    title: str
    text: str
    changes: Sequence[ChangeBefore]
    address: str
    workloads: str


class ProblemSection(NamedTuple):
    """The problems of one damage. ``address`` lists its workloads; empty without such a list."""

    damage: Damage
    title: str
    kind: str
    total: int
    rows: Sequence[ShownProblem]
    address: str


def sections(found: ProblemList, records: Sequence[HistoryRow], most: int = SHOWN) -> list[ProblemSection]:
    """Return the problems by damage, the worst first.

    Args:
        records: what the ledger has of the last hours, the latest first.
        most: the most problems of one damage.
    """
    gate = unjudged(records)
    listed = sorted([*found.items, *gate], key=worst_first)
    shown = []
    for damage in Damage:
        rows = [each for each in listed if each.damage is damage]
        total = max(found.totals.get(damage.value, 0) + (len(gate) if damage is Damage.CONTROL else 0), len(rows))
        if total:
            words = [shown_problem(each, records) for each in rows[:most]]
            shown.append(ProblemSection(damage, _TITLES[damage], _BADGES[damage], total, words, _list_of(damage)))
    return shown


def shown_problem(problem: FleetProblem, records: Sequence[HistoryRow]) -> ShownProblem:
    title, text = words_of(problem)
    return ShownProblem(
        problem, title, text, changes_before(problem, records), address_of(problem), _workloads_of(problem)
    )


def changes_before(problem: FleetProblem, records: Iterable[HistoryRow]) -> list[ChangeBefore]:
    """Return the last change of its policy and the last decision before a problem began, the latest first."""
    found: dict[ChangeKind, ChangeBefore] = {}
    for record in records:
        kind, time = _change_of(problem, record), moment_of(record.time)
        if kind is None or time is None or kind in found:
            continue
        if problem.since is not None and time > problem.since + _SLACK:
            continue
        policy = "" if kind is ChangeKind.DECISION else record.policy
        found[kind] = ChangeBefore(kind, record, time, record.user, _change_text(kind, record), policy)
    return sorted(found.values(), key=lambda each: each.time, reverse=True)


def _change_of(problem: FleetProblem, record: HistoryRow) -> ChangeKind | None:
    """Return what a record says about the subject of a problem; None if it is about another one."""
    if record.kind == _DECISION:
        return ChangeKind.DECISION if problem.resource and record.resource == problem.resource else None
    kind = _EDITS.get(record.kind)
    match kind:
        case None:
            return None
        case ChangeKind.POLICY:
            return kind if problem.policy and record.policy == problem.policy else None
        case ChangeKind.TAKEOVER | ChangeKind.DECISION:
            return kind if problem.resource and record.resource == problem.resource else None
        case _:
            assert_never(kind)


def _change_text(kind: ChangeKind, record: HistoryRow) -> str:
    match kind:
        case ChangeKind.DECISION:
            return f"the scheduler decided, because {recorded_trigger_words(record.trigger)}"
        case ChangeKind.POLICY:
            return f"{record.policy} changed"
        case ChangeKind.TAKEOVER:
            return record.message
        case _:
            assert_never(kind)


def unjudged(records: Iterable[HistoryRow]) -> list[FleetProblem]:
    """Return the changes that the gate refused because it could not judge them, unless a later one passed it."""
    latest: dict[str, HistoryRow] = {}
    for record in records:
        if "gate" in record.details:
            latest.setdefault(record.policy, record)
    return [
        FleetProblem(
            Damage.CONTROL,
            Subject.GATE,
            since=moment_of(each.time),
            message=each.message,
            policy=each.policy,
            user=each.user,
        )
        for each in latest.values()
        if each.kind == _REFUSAL and each.details["gate"] == _UNJUDGED
    ]


def words_of(problem: FleetProblem) -> tuple[str, str]:
    """Return what a problem is called, and what it does."""
    match problem.subject:
        case Subject.CLUSTER:
            return problem.cluster, _cluster_words(problem)
        case Subject.WORKLOAD:
            return problem.resource, _workload_words(problem)
        case Subject.MOVE:
            return problem.resource, f"Its move is not over, although its time is. {sentence(problem.message)}".rstrip()
        case Subject.CONTROLLERS:
            return "Controllers", "No controller has renewed its lease. No move starts, continues or ends."
        case Subject.BRAKE:
            return "Storm brake", f"Nothing is evicted or moved. {sentence(problem.message)}"
        case Subject.CONFIGURATION:
            return "Configuration of moves", f"It is invalid. An earlier one is in use. {sentence(problem.message)}"
        case Subject.STATE:
            return "State", f"The extender does not see changes of the control plane. {sentence(problem.message)}"
        case Subject.GATE:
            return (
                problem.policy,
                f"The gate refused a change, because it could not judge it. {sentence(problem.message)}",
            )
        case _:
            assert_never(problem.subject)


def _because(text: str, why: str) -> str:
    """Return a sentence with its reason: messages of schedulers and clusters begin with a small letter."""
    return f"{text}: {why}" if why else f"{text}."


def _cluster_words(problem: FleetProblem) -> str:
    workloads, replicas = count_text(problem.workloads, "workload"), count_text(problem.replicas, "replica")
    have = "has" if problem.workloads == 1 else "have"
    why = sentence(problem.message)
    match problem.damage:
        case Damage.NO_COPY:
            return _because(f"{workloads} here {have} no copy that runs, with {replicas}", why)
        case Damage.SHORT:
            return _because(f"{workloads} here {have} too few replicas, {replicas} here stopped", why)
        case Damage.NOT_PREFERRED | Damage.MOVING | Damage.CONTROL | Damage.NONE:
            return why
        case _:
            assert_never(problem.damage)


def _workload_words(problem: FleetProblem) -> str:
    replicas, why = count_text(problem.replicas, "replica"), sentence(problem.message)
    match problem.damage:
        case Damage.NO_COPY:
            have = "has" if problem.replicas == 1 else "have"
            return _because(f"It is on no cluster, and {replicas} {have} no place", why) if problem.replicas else why
        case Damage.SHORT:
            return _because(f"It lacks {replicas}", why)
        case Damage.NOT_PREFERRED:
            return _because(f"It is in a later group of its policy, with {replicas}", why)
        case Damage.MOVING | Damage.CONTROL | Damage.NONE:
            return _because(replicas, why)
        case _:
            assert_never(problem.damage)


def address_of(problem: FleetProblem) -> str:
    """Return the page about the subject of a problem."""
    match problem.subject:
        case Subject.CLUSTER:
            return url_for("fleet.one", name=problem.cluster)
        case Subject.WORKLOAD | Subject.MOVE:
            return url_for("workloads.one", namespace=problem.namespace or CLUSTER_SCOPED, binding=problem.binding)
        case Subject.CONTROLLERS | Subject.BRAKE | Subject.CONFIGURATION:
            return url_for("moves.show")
        case Subject.STATE:
            return url_for("fleet.show")
        case Subject.GATE:
            return url_for("history.show", policy=problem.policy, show="everything")
        case _:
            assert_never(problem.subject)


def _workloads_of(problem: FleetProblem) -> str:
    if problem.subject is not Subject.CLUSTER or not problem.workloads:
        return ""
    only = Restriction.STOPPED.value if problem.damage is Damage.NO_COPY else None
    return url_for("workloads.show", cluster=problem.cluster, only=only)


def _list_of(damage: Damage) -> str:
    match damage:
        case Damage.NO_COPY:
            return url_for("workloads.show", only=[Restriction.STOPPED.value, Restriction.NOWHERE.value])
        case Damage.SHORT:
            return url_for("workloads.show", only=Restriction.SHORT.value)
        case Damage.NOT_PREFERRED:
            return url_for("workloads.show", only=Restriction.NOT_PREFERRED.value)
        case Damage.MOVING:
            return url_for("moves.show", state="overdue")
        case Damage.CONTROL:
            return url_for("moves.show")
        case Damage.NONE:
            return url_for("fleet.show", view="table", state="not-ready")
        case _:
            assert_never(damage)
