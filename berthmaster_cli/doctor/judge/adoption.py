"""How far the adoption has come, by the steps of docs/adopt.md: what was found, what comes next, and the way back."""

from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

import msgspec

from berthmaster.views.texts import count_text
from berthmaster_cli.doctor.facts import BindingFacts, Facts, FleetFacts, LeaseFacts, Setup, Unobserved
from webhook.admission.rule_catalog import ALL_RULES
from webhook.admission.settings import Level

ADOPTION_GROUPS: Final = frozenset({"registration", "controllers", "fleet"})
"""The parts of an installation whose facts show the steps."""
DENYING: Final = tuple(sorted(each.id for each in ALL_RULES if each.default is Level.DENY))
_OFF: Final = "Off"


class StepState(StrEnum):
    """What is known about a step."""

    REACHED = "reached"
    OPEN = "open"
    UNKNOWN = "unknown"
    """It could not be observed, or no control plane shows it."""


class AdoptionStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the adoption.

    Attributes:
        number: from 1; the first step is the one with the least risk.
        back: the commands that take it back; empty if nothing on the plane changed.
    """

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
    for number, (name, evidence, *_) in enumerate(_STEPS, 1):
        state, found = evidence(facts)
        do, back = commands(number, facts.setup)
        steps.append(AdoptionStep(number=number, name=name, state=state, found=found, do=do, back=back))
    reached = max((each.number for each in steps if each.state is _REACHED), default=0)
    following = steps[reached] if reached < len(steps) else None
    return Adoption(tuple(steps), steps[reached - 1] if reached else None, following)


def commands(number: int, setup: Setup) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the commands that take a step, and those that take it back."""
    step = _STEPS[number - 1]
    return tuple(step.do.format(setup=setup).splitlines()), tuple(step.back.format(setup=setup).splitlines())


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
    modes = f"failback {sources.failback}, drain {sources.drain}, rebalance {sources.rebalance}"
    return (_OPEN if sources.failback == sources.drain == sources.rebalance == _OFF else _REACHED), modes


def _records_and_shows(facts: Facts) -> _Evidence:
    recording = any(each.option("ledger") or each.option("ledger-file") for each in facts.running("controllers"))
    parts = {"no ledger": recording, "no console": bool(facts.running("console"))}
    missing = ", ".join(each for each, there in parts.items() if not there)
    return _on_host(facts, "" if missing else "a ledger and a console", missing)


def _on_host(facts: Facts, found: str, missing: str) -> _Evidence:
    if not facts.known_deployments:
        return _UNKNOWN, "no Deployments of Karmada or Berthmaster here; name the host with --kubeconfig"
    return (_REACHED, found) if found else (_OPEN, missing)


class _Step(NamedTuple):
    """A step. ``do`` and ``back`` have a command in each line; ``{setup}`` is the ``Setup``."""

    name: str
    evidence: Callable[[Facts], _Evidence]
    do: str
    back: str


def _replace(file: str) -> str:
    """Return the commands that replace a policy by another one with the same placement."""
    return (
        f"berthmaster plan -f {file} --delete NAMESPACE/PropagationPolicy/NAME --fail-on moved\n"
        f"{{setup.target}} apply -f {file}\n"
        "{setup.target} delete propagationpolicies.policy.karmada.io -n NAMESPACE NAME"
    )


_STEPS: Final = (
    _Step(
        "read only", _reads,
        "{setup.target} apply -f docs/read-only.yaml", "{setup.target} delete -f docs/read-only.yaml",
    ),
    _Step(
        "lint and plan in pull requests", _in_pull_requests,
        "berthmaster lint policies/\nberthmaster plan -f policies/ --fail-on lost", "",
    ),
    _Step(
        "the webhook, which warns", _webhook,
        "{setup.upgrade} --set image.repository=REGISTRY/berthmaster --set controllers.enabled=false "
        "--set webhook.failurePolicy=Ignore " + " ".join(f"--set webhook.rules.{each}=warn" for each in DENYING),
        "helm uninstall {setup.release} -n {setup.namespace}",
    ),
    _Step(
        "shadow mode", _shadow,
        "{setup.upgrade} --set controllers.enabled=true --set controllers.shadow.enabled=true",
        "{setup.upgrade} --set controllers.enabled=false",
    ),
    _Step(
        "one policy by schedulerName", _schedules,
        "{setup.upgrade} --set controllers.shadow.enabled=false\n" + _replace("successor.yaml"),
        _replace("predecessor.yaml"),
    ),
    _Step(
        "moves", _moves,
        "{setup.upgrade} --set-json 'controllers.moves.config="
        '{{"failback": {{"mode": "DryRun"}}, "budgets": [{{"name": "one", "maxMoves": 1}}]}}\'',
        "{setup.upgrade} --set controllers.moves.config.failback.mode=Off "
        "--set controllers.moves.config.drain.mode=Off",
    ),
    _Step(
        "the ledger and the console", _records_and_shows,
        "{setup.in_release} create secret generic console-visitors "
        "--from-literal=tokens=$(openssl rand -hex 24),$USER\n"
        "{setup.upgrade} --set controllers.ledger.enabled=true --set controllers.replicas=1 "
        "--set extender.enabled=true --set 'extender.watch={{clusters,policies,bindings,workloads}}' "
        "--set console.enabled=true --set console.signIn.tokenSecretName=console-visitors",
        "{setup.upgrade} --set controllers.ledger.enabled=false --set console.enabled=false "
        "--set extender.enabled=false",
    ),
)  # fmt: skip
