"""Policies as rows: what each claims, what the rules find, which takeovers are possible, and priority drops."""

from typing import Final

import msgspec

MAX_CLAIMED: Final = 100
"""The most claimed workloads that a row names."""


class PolicyFinding(msgspec.Struct, frozen=True, rename="camel"):
    """What a rule of the webhook finds in a stored policy.

    Attributes:
        rule: the id of the rule.
        severity: ``error`` (the webhook would deny the policy today) or ``warning``.
        path: the path of the field; empty for the whole policy.
        message: what is wrong, and how to correct it.
    """

    rule: str
    severity: str
    path: str
    message: str


class TakeoverRow(msgspec.Struct, frozen=True, rename="camel"):
    """A resource that one policy may take from another by preemption.

    Attributes:
        resource: ``NAMESPACE/KIND/NAME``.
        holder: the policy that holds it: kind, namespace and name.
        taker: the policy that may take it over.
        message: what prevents it now.
    """

    resource: str
    holder: str
    taker: str
    message: str


class PriorityDropRow(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A drop of the priority of a policy, after which others may take its resources.

    Attributes:
        message: what happened, or what is still open.
        open: whether the preemption controller has not handled it yet.
        time: when it was handled, in RFC 3339; empty if it is open.
        record: the id of the record in the ledger; empty without one.
    """

    message: str
    open: bool = False
    time: str = ""
    record: str = ""


class PolicyRow(msgspec.Struct, frozen=True, rename="camel"):
    """A policy.

    Attributes:
        kind, namespace, name: those of the policy. A ClusterPropagationPolicy has no namespace.
        priority: the explicit priority.
        preemption: ``Always`` or ``Never``.
        scheduler: the scheduler of its bindings.
        groups: the names of its affinity groups, in order; empty for a placement without groups.
        selectors: what it selects, one text each.
        deleting: whether it is being deleted.
        claims: how many workloads it holds; null if the workloads are not known.
        claimed: the first of them, at most ``MAX_CLAIMED``, by name.
        findings: what the rules find; null if the service does not run them.
        takes: what it may take from other policies.
        loses: what other policies may take from it.
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
