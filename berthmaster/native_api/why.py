"""The answers of the native API to questions that begin with why: moves, policies, claims, why-not, resilience.

Recorded decisions are explained by ``berthmaster.ledger.records.PastExplanation`` as it is.
"""

from datetime import datetime
from typing import Final, NamedTuple

from berthmaster.model.policy import Policy
from berthmaster.native_api.fleet import FleetAmount
from berthmaster.native_api.wire import AnswerPart, Staleness
from berthmaster.simulation.assumptions import Assumptions
from berthmaster.simulation.drift import FleetDrift
from berthmaster.simulation.failures import FailureDomain, Impact
from berthmaster.simulation.report import ClaimRow
from berthmaster.simulation.why_not import WhyNot
from berthmaster.views.move_rows import MovesReport
from berthmaster.views.policy_rows import PolicyRow

MAX_NAMES: Final = 100
"""The most names of workloads in each list of a failure."""


class MovesView(MovesReport, frozen=True, rename="camel", omit_defaults=True):
    """What moves, what waits and for what.

    Attributes:
        counts: the number of bindings with a move by state, of all that the reader may see.
        matched: how many moves the question selects. ``moves`` is a page of them.
        version: the version of the state that the answer is about, as ``GET /v1/version`` gives it.
        staleness: how current the state of the service is.
    """

    counts: dict[str, int] = {}
    matched: int = 0
    version: str = ""
    staleness: Staleness | None = None


POLICY_SORTS: Final = ("name", "priority", "claims", "findings", "takeovers")
"""The orders of policies. A number of findings or takeovers that is not known comes last."""


class PolicyQuery(NamedTuple):
    """Which policies to list. All conditions must hold.

    Attributes:
        q: a part of ``NAMESPACE/NAME``, in any case; empty for all.
        kind, name: exact; empty for all.
        only: only policies with ``findings``, ``takeovers``, ``drops``, or with all that are given.
        namespaces: their namespaces, ``CLUSTER_SCOPED`` for ClusterPropagationPolicies; None for all.
        sort: one of ``POLICY_SORTS``, with a leading ``-`` for descending; empty for kind, namespace and name.
        offset: how many policies to leave out first.
        limit: the most policies.
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
    """A page of the policies.

    Attributes:
        items: the policies of this page.
        matched: how many policies the question selects.
        total: how many policies there are.
        gaps: what the service does not know and what follows, one sentence each.
        version: as in ``MovesView``.
        staleness: how current the state of the service is.
    """

    items: list[PolicyRow]
    matched: int
    total: int
    gaps: list[str]
    version: str
    staleness: Staleness


class AllowedGroup(AnswerPart, frozen=True):
    """The clusters that a group of a placement allows. Whether a workload fits there is another question.

    Attributes:
        name: the name of the group; empty for a placement without groups.
        extends: the group that overflows to this one; empty for a group of its own.
        matching: how many clusters the affinity matches.
        repelling: how many of them have a taint that the placement does not tolerate.
        unready: how many of the others are not ready or are being removed.
        names: the clusters that remain, by name; at most ``MAX_NAMES``.
        resources: what the clusters that remain have together, by resource.
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
        """How many clusters remain."""
        return self.matching - self.repelling - self.unready


class PolicyView(AnswerPart, frozen=True):
    """One policy, and what its placement allows.

    Attributes:
        row: the policy as the list of policies has it.
        policy: the policy as the service reads it: the fields that decisions use, with Karmada's defaults.
        groups: what its groups allow, in order.
        failback: the default mode of failbacks of the controllers; null if it is not known.
        gaps: what the service does not know and what follows, one sentence each.
        version: as in ``MovesView``.
        staleness: how current the state of the service is.
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
        resource: the workload as ``NAMESPACE/KIND/NAME``.
        holder: the policy that holds it: kind, namespace and name; null if none does or it is not known.
        why: why it holds the workload, or why none does. One sentence.
        claims: the policies that match, the holder first, then the best. Each other one says why it does not hold.
        gaps: what the service does not know and what follows, one sentence each.
        version: as in ``MovesView``.
        staleness: how current the state of the service is.
    """

    resource: str
    holder: str | None
    why: str
    claims: list[ClaimRow]
    gaps: list[str]
    version: str
    staleness: Staleness


class WhyNotView(WhyNot, frozen=True, rename="camel"):
    """Why a workload does not run on a cluster, now or at a recorded decision.

    Attributes:
        record: the id of the recorded decision; null for the present.
        gaps: what the service does not know and what follows, one sentence each.
        version: as in ``MovesView``; empty for a recorded decision.
        staleness: how current the state of the service is; null for a recorded decision.
    """

    record: str | None = None
    gaps: list[str] = []
    version: str = ""
    staleness: Staleness | None = None


class ImpactView(Impact, frozen=True, rename="camel"):
    """What a failure does. The lists of workloads have at most ``MAX_NAMES`` names.

    Attributes:
        totals: the lengths of the whole lists ``only_copy``, ``nowhere``, ``short`` and ``staying``.
    """

    totals: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def counts(self) -> tuple[int, int, int, int]:
        return self.totals


class ResilienceView(AnswerPart, frozen=True):
    """What each failure alone would do.

    Attributes:
        by: what fails as a whole.
        assumptions: the switches of the control plane that the answer assumes.
        impacts: the failures, the worst first.
        failures: the number of all failures; ``impacts`` may have fewer.
        harmless: how many of all failures leave every workload running and no cluster overcommitted.
        workloads: the number of workloads.
        clusters: the names of all clusters.
        computed_at: when the failures were simulated.
        gaps: what the service does not know and what follows, one sentence each.
        version: as in ``MovesView``.
        staleness: how current the state of the service is.
    """

    by: list[FailureDomain]
    assumptions: Assumptions
    impacts: list[ImpactView]
    failures: int
    harmless: int
    workloads: int
    clusters: list[str]
    computed_at: datetime
    gaps: list[str]
    version: str
    staleness: Staleness


class DriftView(FleetDrift, frozen=True, rename="camel", kw_only=True):
    """The drift of the workloads that a reader may see. ``workloads`` may have fewer than drift.

    Attributes:
        computed_at: when the drift was computed.
        gaps: what the service does not know and what follows, one sentence each.
        version: as in ``MovesView``.
        staleness: how current the state of the service is.
    """

    computed_at: datetime
    gaps: list[str]
    version: str
    staleness: Staleness
