"""The source as one visitor may see it: nothing about workloads and policies of other namespaces passes."""

from collections.abc import Iterable
from typing import Final, Protocol

from msgspec.structs import replace

from berthmaster.ledger.records import PastExplanation
from berthmaster.model.reader import namespace_of
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
from berthmaster.simulation.report import Explanation
from berthmaster.views.policy_rows import PolicyRow
from console.source import Source, SourceError
from console.visitor import Visitor

_FORBIDDEN: Final = 403


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
        found = self._source.decision(name, namespace)
        return replace(found, **self._companions(found))

    def outlook(self, name: str, namespace: str = "", group: str | None = None) -> BindingOutlook:
        self._require(namespace)
        return self._source.outlook(name, namespace, group)

    def recorded_decision(self, record: str, name: str, namespace: str = "") -> PastExplanation:
        self._require(namespace)
        found = self._source.recorded_decision(record, name, namespace)
        return replace(found, explanation=replace(found.explanation, **self._companions(found.explanation)))

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
        return self._source.moves(namespaces=self._visitor.namespaces, limit=limit)

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
        for change in request.changes:
            if isinstance(change, ScaleChange):
                self._require(namespace_of(change.resource))
        return self._source.plan(replace(request, namespaces=self._visitor.namespaces))

    def _require(self, namespace: str) -> None:
        """Refuse a question about a namespace that the visitor may not see.

        Raises:
            SourceError: the visitor may not see it.
        """
        if not self._visitor.may_see(namespace):
            what = f"in the namespace {namespace}" if namespace else "without a namespace"
            raise SourceError(f"You may not list bindings {what}, so the console does not show them.", _FORBIDDEN)

    def _companions(self, explained: Explanation) -> dict[str, list[str]]:
        """Return the workloads that one follows and that follow it, without the names of others."""
        named = self._visitor.reader.named
        return {
            "follows": named(explained.follows),
            "followed_by": named(explained.followed_by),
            "missing": named(explained.missing),
        }

    def _policy(self, row: PolicyRow) -> PolicyRow:
        reader = self._visitor.reader
        return replace(
            row,
            claimed=reader.seen(row.claimed),
            takes=[each for each in row.takes if reader.sees_resource(each.resource)],
            loses=[each for each in row.loses if reader.sees_resource(each.resource)],
        )

    def _impact(self, impact: ImpactView) -> ImpactView:
        reader = self._visitor.reader
        return replace(
            impact,
            nowhere=reader.seen(impact.nowhere),
            short=reader.seen(impact.short),
            staying=reader.seen(impact.staying),
        )
