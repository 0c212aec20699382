"""The source as one visitor may see it: nothing about workloads and policies of other namespaces passes."""

import re
from collections.abc import Iterable
from typing import Final, Protocol

from msgspec.structs import replace

from berthmaster.ledger.records import PastExplanation
from berthmaster.native_api.fleet import FleetView, WorkloadPage, WorkloadQuery
from berthmaster.native_api.outlook import BindingOutlook
from berthmaster.native_api.what_if import PlanAnswer, PlanRequest, ScaleChange
from berthmaster.native_api.why import (
    ClaimsView,
    ImpactView,
    MovesView,
    PolicyList,
    PolicyQuery,
    ResilienceView,
    WhyNotView,
)
from berthmaster.native_api.wire import BindingExplanation, BindingView, HistoryPage
from berthmaster.simulation.plan import PlanSummary
from berthmaster.simulation.plan_answer import ClaimChange, Plan, PolicyEffect
from berthmaster.views.policy_rows import PolicyRow
from console.source import Source, SourceError
from console.visitor import Visitor

_FORBIDDEN = 403
_GAP_OF_WORKLOAD: Final = re.compile(r"the dependencies of (\S+) are not known")
_GAP_ELSEWHERE: Final = "the dependencies of workloads in other namespaces are not known"
_SUGGESTED_WORKLOAD: Final = re.compile(r"(there is no such resource); did you mean .*", re.DOTALL)


class WholeSource(Source, Protocol):
    """A source that answers for chosen namespaces, or for all."""

    def moves(self, *, namespaces: Iterable[str] | None = None, limit: int = 1000) -> MovesView: ...


class VisibleSource:
    """Answers about the namespaces of a visitor. Totals of clusters and of plans count all namespaces."""

    def __init__(self, source: WholeSource, visitor: Visitor) -> None:
        self._source = source
        self._visitor = visitor

    def fleet(self) -> FleetView:
        return self._source.fleet()

    def workloads(self, query: WorkloadQuery) -> WorkloadPage:
        return self._source.workloads(replace(query, namespaces=self._visitor.namespaces))

    def binding(self, name: str, namespace: str = "") -> BindingView:
        self._require(namespace)
        found = self._source.binding(name, namespace)
        required_by = [each for each in found.required_by if self._visitor.may_see(each.namespace)]
        return replace(found, required_by=required_by)

    def decision(self, name: str, namespace: str = "") -> BindingExplanation:
        self._require(namespace)
        return self._source.decision(name, namespace)

    def outlook(self, name: str, namespace: str = "", group: str | None = None) -> BindingOutlook:
        self._require(namespace)
        return self._source.outlook(name, namespace, group)

    def recorded_decision(self, record: str, name: str, namespace: str = "") -> PastExplanation:
        self._require(namespace)
        return self._source.recorded_decision(record, name, namespace)

    def claims(self, name: str, namespace: str = "") -> ClaimsView:
        self._require(namespace)
        return self._source.claims(name, namespace)

    def why_not(self, cluster: str, name: str, namespace: str = "", *, record: str = "") -> WhyNotView:
        self._require(namespace)
        return self._source.why_not(cluster, name, namespace, record=record)

    def history(self, namespace: str, kind: str, name: str, *, after: str = "", limit: int = 50) -> HistoryPage:
        self._require(namespace)
        found = self._source.history(namespace, kind, name, after=after, limit=limit)
        # The question about a cluster-scoped workload also matches workloads of this name in all namespaces.
        return replace(found, items=[row for row in found.items if self._visitor.may_see(row.namespace)])

    def moves(self, *, limit: int = 1000) -> MovesView:
        found = self._source.moves(namespaces=self._visitor.namespaces, limit=limit)
        if found.budgets is None or self._visitor.namespaces is None:
            return found
        budgets = [
            replace(each, by_policy={name: n for name, n in each.by_policy.items() if self._sees_policy(name)})
            for each in found.budgets
        ]
        return replace(found, budgets=budgets)

    def policies(self, query: PolicyQuery) -> PolicyList:
        namespaces = self._visitor.namespaces
        found = self._source.policies(query._replace(namespaces=namespaces))
        return found if namespaces is None else replace(found, items=[self._policy(each) for each in found.items])

    def resilience(self, by: Iterable[str] = ("cluster",), *, limit: int = 200) -> ResilienceView:
        found = self._source.resilience(by, limit=limit)
        if self._visitor.namespaces is None:
            return found
        return replace(found, impacts=[self._impact(each) for each in found.impacts])

    def plan(self, request: PlanRequest) -> PlanAnswer:
        if self._visitor.namespaces is None:
            return self._source.plan(request)
        for change in request.changes:
            if isinstance(change, ScaleChange):
                self._require(_namespace_of(change.resource))
        try:
            found = self._source.plan(request)
        except SourceError as error:
            # The extender suggests a workload with a similar name, of any namespace.
            raise SourceError(_SUGGESTED_WORKLOAD.sub(r"\1", str(error)), error.status) from None
        return replace(found, plan=self._plan(found.plan))

    def _require(self, namespace: str) -> None:
        """Refuse a question about a namespace that the visitor may not see.

        Raises:
            SourceError: the visitor may not see it.
        """
        if not self._visitor.may_see(namespace):
            what = f"in the namespace {namespace}" if namespace else "without a namespace"
            raise SourceError(f"You may not list bindings {what}, so the console does not show them.", _FORBIDDEN)

    def _sees(self, resource: str) -> bool:
        """Return whether the visitor may see ``NAMESPACE/KIND/NAME``; a cluster-scoped one has no namespace."""
        return self._visitor.may_see(_namespace_of(resource))

    def _sees_policy(self, policy: str) -> bool:
        """Return whether the visitor may see ``KIND NAMESPACE/NAME``."""
        namespace, slash, _ = policy.rpartition(" ")[2].partition("/")
        return self._visitor.may_see(namespace if slash else "")

    def _visible(self, resources: Iterable[str]) -> list[str]:
        return [each for each in resources if self._sees(each)]

    def _policy(self, row: PolicyRow) -> PolicyRow:
        return replace(
            row,
            claimed=self._visible(row.claimed),
            takes=[each for each in row.takes if self._sees(each.resource)],
            loses=[each for each in row.loses if self._sees(each.resource)],
        )

    def _impact(self, impact: ImpactView) -> ImpactView:
        return replace(
            impact,
            nowhere=self._visible(impact.nowhere),
            short=self._visible(impact.short),
            staying=self._visible(impact.staying),
        )

    def _summary(self, summary: PlanSummary) -> PlanSummary:
        return replace(
            summary,
            nowhere=self._visible(summary.nowhere),
            short=self._visible(summary.short),
            new_failures=self._visible(summary.new_failures),
        )

    def _plan(self, plan: Plan) -> Plan:
        return replace(
            plan,
            gaps=self._gaps(plan.gaps),
            summary=self._summary(plan.summary),
            policies=[self._effect(each) for each in plan.policies if self._sees_policy(each.policy)],
            unplaced=[each for each in plan.unplaced if self._sees(each.resource)],
            moves=[each for each in plan.moves if self._sees(each.resource)],
            staying=[each for each in plan.staying if self._sees(each.resource)],
        )

    def _gaps(self, gaps: Iterable[str]) -> list[str]:
        """Return the gaps without the names of workloads that the visitor may not see."""
        found = []
        for gap in gaps:
            named = _GAP_OF_WORKLOAD.match(gap)
            found.append(_GAP_ELSEWHERE if named and not self._sees(named[1]) else gap)
        return list(dict.fromkeys(found))

    def _effect(self, effect: PolicyEffect) -> PolicyEffect:
        def visible(changes: list[ClaimChange]) -> list[ClaimChange]:
            return [each for each in changes if self._sees(each.resource)]

        return replace(
            effect,
            gains=visible(effect.gains),
            takes=visible(effect.takes),
            loses=visible(effect.loses),
            unclaimed=visible(effect.unclaimed),
        )


def _namespace_of(resource: str) -> str:
    """Return the namespace of ``NAMESPACE/KIND/NAME``; empty for ``KIND/NAME``."""
    parts = resource.split("/")
    return parts[0] if len(parts) > 2 else ""
