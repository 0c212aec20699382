"""How far the adoption has come, by the steps of docs/adopt.md: what was found, what comes next, and the way back."""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from berthmaster.views.texts import count_text
from berthmaster_cli.doctor.facts import BindingFacts, DeploymentFacts, Facts, FleetFacts, LeaseFacts, Setup, Unobserved
from webhook.admission.rule_catalog import ALL_RULES
from webhook.admission.settings import Level

ADOPTION_GROUPS: Final = frozenset({"registration", "controllers", "fleet"})
"""The parts of an installation whose facts show the steps."""
DENYING: Final = tuple(sorted(each.id for each in ALL_RULES if each.default is Level.DENY))
_SILENT: Final = timedelta(minutes=1)
_OFF: Final = "Off"
_OPTIONAL: Final = ("controllers.ledger", "console", "extender")


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
    steps = tuple(_steps(facts))
    reached = max((each.number for each in steps if each.state is _REACHED), default=0)
    following = steps[reached] if reached < len(steps) else None
    return Adoption(steps, steps[reached - 1] if reached else None, following)


def _steps(facts: Facts) -> Iterator[AdoptionStep]:
    for number, (name, evidence) in enumerate(_JUDGED.items(), 1):
        state, found = evidence(facts)
        do, back = commands(number, facts.setup)
        yield AdoptionStep(number=number, name=name, state=state, found=found, do=do, back=back)


def commands(number: int, setup: Setup) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the commands that take a step, and those that take it back."""
    upgrade = setup.upgrade
    match number:
        case 1:
            return (f"{setup.target} apply -f docs/read-only.yaml",), (f"{setup.target} delete -f docs/read-only.yaml",)
        case 2:
            return ("berthmaster lint policies/", "berthmaster plan -f policies/ --fail-on lost"), ()
        case 3:
            rules = " ".join(f"--set webhook.rules.{each}=warn" for each in DENYING)
            quiet = "--set controllers.enabled=false --set webhook.failurePolicy=Ignore"
            return (
                (f"{upgrade} --set image.repository=REGISTRY/berthmaster {quiet} {rules}",),
                (f"helm uninstall {setup.release} -n {setup.namespace}",),
            )
        case 4:
            return (
                (f"{upgrade} --set controllers.enabled=true --set controllers.shadow.enabled=true",),
                (f"{upgrade} --set controllers.enabled=false",),
            )
        case 5:
            return (
                (f"{upgrade} --set controllers.shadow.enabled=false", *_replace("successor.yaml", setup)),
                _replace("predecessor.yaml", setup),
            )
        case 6:
            config = '{"failback": {"mode": "DryRun"}, "budgets": [{"name": "one", "maxMoves": 1}]}'
            off = " ".join(f"--set controllers.moves.config.{each}.mode=Off" for each in ("failback", "drain"))
            return (f"{upgrade} --set-json 'controllers.moves.config={config}'",), (f"{upgrade} {off}",)
        case _:
            recorded = "--set controllers.ledger.enabled=true --set controllers.replicas=1"
            shown = "--set extender.enabled=true --set 'extender.watch={clusters,policies,bindings,workloads}'"
            console = "--set console.enabled=true --set console.signIn.tokenSecretName=console-visitors"
            tokens = "create secret generic console-visitors --from-literal=tokens=$(openssl rand -hex 24),$USER"
            return (
                (f"{setup.in_release} {tokens}", f"{upgrade} {recorded} {shown} {console}"),
                (f"{upgrade} {' '.join(f'--set {each}.enabled=false' for each in _OPTIONAL)}",),
            )


def _replace(file: str, setup: Setup) -> tuple[str, ...]:
    """Return the commands that replace a policy by another one with the same placement."""
    return (
        f"berthmaster plan -f {file} --delete NAMESPACE/PropagationPolicy/NAME --fail-on moved",
        f"{setup.target} apply -f {file}",
        f"{setup.target} delete propagationpolicies.policy.karmada.io -n NAMESPACE NAME",
    )


def _reads(facts: Facts) -> _Evidence:
    match facts.fleet, facts.bindings:
        case FleetFacts() as fleet, BindingFacts() as bindings:
            read = f"{count_text(fleet.total, 'cluster')} and {count_text(_total(bindings), 'binding')}"
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
    ours = [each for each in facts.known_webhooks if each.ours]
    if not ours:
        return _OPEN, "no webhook of Berthmaster is registered"
    closed = "Fail" if any(each.fails_closed for each in ours) else "Ignore"
    return _REACHED, f"{count_text(len(ours), 'webhook')} with failurePolicy {closed}"


def _shadow(facts: Facts) -> _Evidence:
    running = [each for each in _deployed(facts, "controllers") if "--shadow" in each.arguments]
    return _on_host(facts, f"Deployment {running[0].name}" if running else "", "no controllers run with --shadow")


def _schedules(facts: Facts) -> _Evidence:
    if not isinstance(facts.bindings, BindingFacts):
        return _UNKNOWN, "bindings cannot be read"
    name = facts.setup.scheduler_name
    count = facts.bindings.by_scheduler.get(name, 0)
    of = f"{count} of {count_text(_total(facts.bindings), 'binding')} name the scheduler {name}"
    if _leader(facts) is None:
        return _OPEN, f"{of}, and no controllers hold the lease"
    return (_REACHED if count else _OPEN), of


def _moves(facts: Facts) -> _Evidence:
    if isinstance(facts.lease, Unobserved):
        return _UNKNOWN, facts.lease.problem
    leader = _leader(facts)
    if leader is None:
        return _OPEN, "no controllers hold the lease"
    sources = leader.sources
    if sources is None:
        return _OPEN, "the controllers have no configuration of moves"
    modes = f"failback {sources.failback}, drain {sources.drain}, rebalance {sources.rebalance}"
    return (_OPEN if sources.failback == sources.drain == sources.rebalance == _OFF else _REACHED), modes


def _records_and_shows(facts: Facts) -> _Evidence:
    recording = [
        each for each in _deployed(facts, "controllers") if each.option("ledger") or each.option("ledger-file")
    ]
    parts = {"a ledger": bool(recording), "a console": bool(_deployed(facts, "console"))}
    missing = ", ".join(f"no {each.removeprefix('a ')}" for each, there in parts.items() if not there)
    return _on_host(facts, "" if missing else "a ledger and a console", missing)


def _on_host(facts: Facts, found: str, missing: str) -> _Evidence:
    if not facts.known_deployments:
        return _UNKNOWN, "no Deployments of Karmada or Berthmaster here; name the host with --kubeconfig"
    return (_REACHED, found) if found else (_OPEN, missing)


def _deployed(facts: Facts, component: str) -> list[DeploymentFacts]:
    return [each for each in facts.known_deployments if each.component == component]


def _leader(facts: Facts) -> LeaseFacts | None:
    """Return the lease if a process holds it; a process that crashed stops renewing it."""
    lease = facts.lease
    if not isinstance(lease, LeaseFacts) or not lease.holder or lease.renewed is None:
        return None
    return lease if facts.now - lease.renewed <= max(_SILENT, timedelta(seconds=lease.duration_s)) else None


def _total(bindings: BindingFacts) -> int:
    return sum(bindings.by_scheduler.values())


_JUDGED: Final[Mapping[str, Callable[[Facts], _Evidence]]] = {
    "read only": _reads,
    "lint and plan in pull requests": _in_pull_requests,
    "the webhook, which warns": _webhook,
    "shadow mode": _shadow,
    "one policy by schedulerName": _schedules,
    "moves": _moves,
    "the ledger and the console": _records_and_shows,
}
