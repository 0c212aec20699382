"""The results for a KubeAdmiral federation as rows, which the commands print and the extender returns."""

import msgspec

from berthmaster.simulation.federation import FederatedResult


class FederationRow(msgspec.Struct, frozen=True, rename="camel"):
    """The result for one workload of a KubeAdmiral federation.

    Attributes:
        replicas: the number in the template; None for a kind without replicas.
        clusters: replicas by cluster; None where the number of the template applies.
    """

    resource: str
    policy: str | None
    replicas: int | None
    unplaced: int
    clusters: dict[str, int | None]
    trigger: str
    error: str | None
    message: str | None


class FederationChange(msgspec.Struct, frozen=True, rename="camel"):
    """The results for one workload before and after the changes, and the clusters that differ."""

    resource: str
    before: FederationRow
    after: FederationRow
    moves: dict[str, tuple[int | None, int | None]]


def federation_row(result: FederatedResult) -> FederationRow:
    """Return the row of a result."""
    bound, decision = result.bound, result.decision
    failure = decision.failure if decision is not None else None
    policy = bound.policy
    messages = [failure.message] if failure is not None else []
    if result.unplaced:
        messages.append(f"{result.unplaced} of {bound.workload.replicas} replicas have no cluster")
    return FederationRow(
        resource=str(bound.name),
        policy=f"{policy.kind} {policy.metadata.name}" if policy is not None else None,
        replicas=bound.workload.replicas,
        unplaced=result.unplaced,
        clusters=dict(bound.workload.current),
        trigger=result.trigger.value,
        error=failure.kind.value if failure is not None else None,
        message="; ".join([*messages, *result.notes]) or None,
    )


def federation_change(before: FederatedResult, after: FederatedResult) -> FederationChange:
    """Return the row of a workload before and after changes."""
    old, new = before.bound.workload.current, after.bound.workload.current
    moves = {
        name: (old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if (name in old, old.get(name)) != (name in new, new.get(name))
    }
    return FederationChange(str(after.bound.name), federation_row(before), federation_row(after), moves)
