"""Policies as rows: what each claims, what the rules find, which takeovers are possible, and priority drops. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final

import msgspec

from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.model.policy_preemption import Resource, may_preempt, named_resources
from berthmaster.model.priority_drops import PRIORITY_DROP_ANNOTATION, parse_priority_drop
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.views.policy_words import selector_text

MAX_CLAIMED: Final = 100


class PolicyFinding(msgspec.Struct, frozen=True, rename="camel"):
    """What a rule of the webhook finds in a stored policy.

    Attributes:
        severity: ``error`` (the webhook would deny the policy today) or ``warning``.
    """

    rule: str
    severity: str
    path: str
    message: str


class TakeoverRow(msgspec.Struct, frozen=True, rename="camel"):
    """A resource that one policy may take from another by preemption."""

    resource: str
    holder: str
    taker: str
    message: str


class PriorityDropRow(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A drop of the priority of a policy, after which others may take its resources.

    Attributes:
        open: whether the preemption controller has not handled it yet.
        time: when it was handled, in RFC 3339; empty if it is open.
    """

    message: str
    open: bool = False
    time: str = ""
    record: str = ""


class PolicyRow(msgspec.Struct, frozen=True, rename="camel"):
    """A policy.

    Attributes:
        claims: how many workloads it holds; null if the workloads are not known.
        claimed: the first of them, at most ``MAX_CLAIMED``, by name.
        findings: what the rules find; null if the service does not run them.
        drops: drops of its priority that are open, and recent ones in the ledger.
    """

    kind: str
    namespace: str
    name: str
    priority: int
    preemption: str
    scheduler: str
    groups: list[str]
    selectors: list[str]
    deleting: bool
    claims: int | None
    claimed: list[str]
    findings: list[PolicyFinding] | None
    takes: list[TakeoverRow]
    loses: list[TakeoverRow]
    drops: list[PriorityDropRow]


@dataclass(slots=True)
class PolicyUse:
    """What the workloads say about one policy."""

    names: list[str] = field(default_factory=list)
    takes: list[TakeoverRow] = field(default_factory=list)
    loses: list[TakeoverRow] = field(default_factory=list)


def policy_uses(
    workloads: Iterable[SimulatedWorkload], check: Callable[[], None] = lambda: None
) -> dict[PolicyReference, PolicyUse]:
    """Return which policy holds what, and which takeovers are possible. Policies without either are absent."""
    uses: dict[PolicyReference, PolicyUse] = {}
    named: dict[PolicyReference, frozenset[Resource]] = {}
    for workload in workloads:
        check()
        if workload.held_by is not None:
            uses.setdefault(workload.held_by, PolicyUse()).names.append(str(workload))
        for takeover, taker, holder in _takeovers(workload, named):
            for policy, rows in ((taker, "takes"), (holder, "loses")):
                found: list[TakeoverRow] = getattr(uses.setdefault(policy, PolicyUse()), rows)
                if len(found) < MAX_CLAIMED:
                    found.append(takeover)
    return uses


def _takeovers(
    workload: SimulatedWorkload, named: dict[PolicyReference, frozenset[Resource]]
) -> Iterable[tuple[TakeoverRow, PolicyReference, PolicyReference]]:
    """Yield the policies that may take a workload from the policy that holds it."""
    claim = workload.claim
    if claim is None or len(workload.claims) < 2:
        return
    resource = workload.resource
    identity = Resource(resource.api_version, resource.kind, resource.namespace, resource.name)
    for other, reason in zip(workload.claims[1:], workload.why_not[1:], strict=True):
        if not may_preempt(other.policy, claim.policy):
            continue
        taker, holder = other.policy.reference, claim.policy.reference
        if taker not in named:
            named[taker] = frozenset(named_resources(other.policy))
        if identity in named[taker]:
            yield TakeoverRow(str(workload), str(holder), str(taker), reason), taker, holder


def policy_row(
    policy: Policy,
    use: PolicyUse | None,
    findings: Sequence[PolicyFinding] | None,
    recorded: Iterable[PriorityDropRow] = (),
) -> PolicyRow:
    spec, meta = policy.spec, policy.metadata
    return PolicyRow(
        kind=policy.kind,
        namespace=meta.namespace if not policy.cluster_scoped else "",
        name=meta.name,
        priority=policy.explicit_priority,
        preemption=spec.preemption or "Never",
        scheduler=spec.scheduler_name,
        groups=[each.affinity_name for each in spec.placement.cluster_affinities or ()],
        selectors=[selector_text(each) for each in spec.resource_selectors],
        deleting=meta.deletion_timestamp is not None,
        claims=None if use is None else len(use.names),
        claimed=[] if use is None else nsmallest(MAX_CLAIMED, use.names),
        findings=None if findings is None else list(findings),
        takes=[] if use is None else use.takes,
        loses=[] if use is None else use.loses,
        drops=[*_open_drop(meta.annotations), *recorded],
    )


def _open_drop(annotations: Mapping[str, str]) -> Iterable[PriorityDropRow]:
    drop = parse_priority_drop(annotations.get(PRIORITY_DROP_ANNOTATION))
    if drop is not None:
        message = f"its priority fell from {drop.from_} to {drop.to}; preemption has not run for its resources yet"
        yield PriorityDropRow(message, open=True)
