"""How far the adoption has come, by the steps of docs/adopt.md: what was found, what comes next, and the way back."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from berthmaster.views.texts import count_text
from berthmaster_cli.doctor.facts import BindingFacts, Facts, FleetFacts, LeaseFacts, Setup, Unobserved
from webhook.admission.catalog import ALL_RULES
from webhook.admission.settings import Level

ADOPTION_GROUPS: Final = frozenset({"registration", "controllers", "fleet"})
"""The parts of an installation whose facts show the steps."""
DENYING: Final = tuple(sorted(each.id for each in ALL_RULES if each.default is Level.DENY))
_OFF: Final = "Off"
_STEPS: Final[Sequence[Mapping[str, str]]] = msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_bytes())


class StepState(StrEnum):
    """What is known about a step."""

    REACHED = "reached"
    OPEN = "open"
    UNKNOWN = "unknown"
    """It could not be observed, or no control plane shows it."""


class AdoptionStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the adoption, from 1 on. ``back`` takes it back; empty if nothing on the plane changed."""

    number: int
    name: str
    state: StepState
    found: str
    do: tuple[str, ...]
    back: tuple[str, ...]


class Adoption(msgspec.Struct, frozen=True):
    """The steps, the last one that is reached, and the one after it; None if there is none."""

    steps: tuple[AdoptionStep, ...]
    reached: AdoptionStep | None
    next: AdoptionStep | None


_Evidence: TypeAlias = tuple[StepState, str]
_REACHED, _OPEN, _UNKNOWN = StepState.REACHED, StepState.OPEN, StepState.UNKNOWN


def adoption(facts: Facts) -> Adoption:
    """Return the steps as these facts show them."""
    steps = []
    for number, (step, evidence) in enumerate(zip(_STEPS, _EVIDENCE, strict=True), 1):
        state, found = evidence(facts)
        do, back = commands(number, facts.setup)
        steps.append(AdoptionStep(number=number, name=step["name"], state=state, found=found, do=do, back=back))
    reached = max((each.number for each in steps if each.state is _REACHED), default=0)
    following = steps[reached] if reached < len(steps) else None
    return Adoption(tuple(steps), steps[reached - 1] if reached else None, following)


def commands(number: int, setup: Setup) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the commands that take a step, and those that take it back."""
    warn = " ".join(f"--set webhook.rules.{each}=warn" for each in DENYING)
    do, back = (_STEPS[number - 1][key].format(setup=setup, warn=warn).splitlines() for key in ("do", "back"))
    return tuple(do), tuple(back)


def _on_host(facts: Facts, found: str, missing: str) -> _Evidence:
    if not facts.known_deployments:
        return _UNKNOWN, "no Deployments of Karmada or Berthmaster here; name the host with --kubeconfig"
    return (_REACHED, found) if found else (_OPEN, missing)


def _reads(facts: Facts) -> _Evidence:
    match facts.fleet, facts.bindings:
        case FleetFacts() as fleet, BindingFacts() as bindings:
            read = f"{count_text(fleet.total, 'cluster')} and {count_text(bindings.total, 'binding')}"
            return _REACHED, f"this user can read {read}"
        case (Unobserved(problem), _) | (_, Unobserved(problem)):
            return _OPEN, problem
        case _:
            return _UNKNOWN, "not asked"


def _in_pull_requests(_: Facts) -> _Evidence:
    return _UNKNOWN, "a control plane does not show what CI runs"


def _webhook(facts: Facts) -> _Evidence:
    if isinstance(facts.webhooks, Unobserved):
        return _UNKNOWN, facts.webhooks.problem
    if not facts.ours:
        return _OPEN, "no webhook of Berthmaster is registered"
    closed = "Fail" if any(each.fails_closed for each in facts.ours) else "Ignore"
    return _REACHED, f"{count_text(len(facts.ours), 'webhook')} with failurePolicy {closed}"


def _shadow(facts: Facts) -> _Evidence:
    running = [each for each in facts.running("controllers") if "--shadow" in each.arguments]
    return _on_host(facts, f"Deployment {running[0].name}" if running else "", "no controllers run with --shadow")


def _schedules(facts: Facts) -> _Evidence:
    if not isinstance(facts.bindings, BindingFacts):
        return _UNKNOWN, "bindings cannot be read"
    name = facts.setup.scheduler_name
    count = facts.bindings.by_scheduler.get(name, 0)
    of = f"{count} of {count_text(facts.bindings.total, 'binding')} name the scheduler {name}"
    if not (isinstance(facts.lease, LeaseFacts) and facts.is_live(facts.lease)):
        return _OPEN, f"{of}, and no controllers hold the lease"
    return (_REACHED if count else _OPEN), of


def _moves(facts: Facts) -> _Evidence:
    if isinstance(facts.lease, Unobserved):
        return _UNKNOWN, facts.lease.problem
    if facts.lease is None or not facts.is_live(facts.lease):
        return _OPEN, "no controllers hold the lease"
    sources = facts.lease.sources
    if sources is None:
        return _OPEN, "the controllers have no configuration of moves"
    modes = ", ".join(f"{name} {mode}" for name, mode in sources.modes.items())
    return (_OPEN if {*sources.modes.values()} == {_OFF} else _REACHED), modes


def _records_and_shows(facts: Facts) -> _Evidence:
    recording = any(each.option("ledger") or each.option("ledger-file") for each in facts.running("controllers"))
    parts = {"no ledger": recording, "no console": bool(facts.running("console"))}
    missing = ", ".join(each for each, there in parts.items() if not there)
    return _on_host(facts, "" if missing else "a ledger and a console", missing)


_EVIDENCE: Final = (_reads, _in_pull_requests, _webhook, _shadow, _schedules, _moves, _records_and_shows)
