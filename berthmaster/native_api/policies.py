"""The native API's answers about policies, and who holds a resource."""

from typing import Final, NamedTuple

from berthmaster.model.policy import Policy
from berthmaster.native_api.fleet import FleetAmount
from berthmaster.native_api.wire import AnswerPart, Staleness
from berthmaster.simulation.report import ClaimRow
from berthmaster.views.policy_rows import PolicyRow

POLICY_SORTS: Final = ("name", "priority", "claims", "findings", "takeovers")
"""The orders of policies. A number of findings or takeovers that is not known comes last."""


class PolicyQuery(NamedTuple):
    """Which policies to list. All conditions must hold.

    Attributes:
        q: a part of ``NAMESPACE/NAME``, in any case; empty for all.
    """

    q: str = ""
    kind: str = ""
    name: str = ""
    only: tuple[str, ...] = ()
    namespaces: frozenset[str] | None = None
    sort: str = ""
    offset: int = 0
    limit: int = 200


class PolicyList(AnswerPart, frozen=True):
    """A page of the policies."""

    items: list[PolicyRow]
    matched: int
    total: int
    gaps: list[str]
    version: str
    staleness: Staleness


class AllowedGroup(AnswerPart, frozen=True):
    """The clusters that a group of a placement allows. Whether a workload fits there is another question.

    Attributes:
        extends: the group that overflows to this one; empty for a group of its own.
        repelling: how many of them have a taint that the placement does not tolerate.
        unready: how many of the others are not ready or are being removed.
        names: the clusters that remain, by name; at most ``MAX_NAMES``.
    """

    name: str
    extends: str
    matching: int
    repelling: int
    unready: int
    names: list[str]
    resources: dict[str, FleetAmount]

    @property
    def remaining(self) -> int:
        return self.matching - self.repelling - self.unready


class PolicyView(AnswerPart, frozen=True):
    """One policy, and what its placement allows.

    Attributes:
        policy: the policy as the service reads it: the fields that decisions use, with Karmada's defaults.
        failback: the default mode of failbacks of the controllers; null if it is not known.
    """

    row: PolicyRow
    policy: Policy
    groups: list[AllowedGroup]
    failback: str | None
    gaps: list[str]
    version: str
    staleness: Staleness


class ClaimsView(AnswerPart, frozen=True):
    """Which policy holds a workload, and which others match it.

    Attributes:
        holder: the policy that holds it: kind, namespace and name; null if none does or it is not known.
        claims: the policies that match, the holder first, then the best. Each other one says why it does not hold.
    """

    resource: str
    holder: str | None
    why: str
    claims: list[ClaimRow]
    gaps: list[str]
    version: str
    staleness: Staleness
