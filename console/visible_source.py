"""The source as one visitor may see it. Each question carries the namespaces of the visitor; the extender filters."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from berthmaster.ledger.records import PastExplanation
from berthmaster.model.gaps import namespace_of
from berthmaster.native_api.fleet import FleetView, WorkloadPage, WorkloadQuery
from berthmaster.native_api.outlook import BindingOverview
from berthmaster.native_api.what_if import PlanAnswer, PlanRequest, ScaleChange
from berthmaster.native_api.why import (
    DriftQuery,
    DriftView,
    MovesView,
    PolicyList,
    PolicyQuery,
    PolicyView,
    ResilienceView,
    WhyNotView,
)
from berthmaster.native_api.wire import BindingView, HistoryPage
from berthmaster.simulation.assumptions import Switch
from berthmaster.views.move_rows import MoveQuery
from console.extender_source import ExtenderSource
from console.source import HistoryQuery, SourceError
from console.visitor import Visitor

_FORBIDDEN: Final = 403


class VisibleSource:
    """The extender as the pages of one visitor ask it. Safe for several threads.

    Each method asks the question of ``berthmaster.native_api.client.Client`` with the same name, and raises a
    ``SourceError``. Totals of clusters and of plans count all namespaces.
    """

    def __init__(self, source: ExtenderSource, visitor: Visitor) -> None:
        self._source = source.for_page()
        self._visitor = visitor

    @property
    def as_of(self) -> datetime | None:
        """The time of the oldest answer so far that was not given now; None if all are present."""
        return self._source.as_of

    def fleet(self) -> FleetView:
        return self._source.fleet()

    def workloads(self, query: WorkloadQuery) -> WorkloadPage:
        return self._source.workloads(replace(query, namespaces=self._visitor.namespaces))

    def binding(self, name: str, namespace: str = "") -> BindingView:
        self._require(namespace)
        return self._source.binding(name, namespace, namespaces=self._visitor.namespaces)

    def overview(
        self, name: str, namespace: str = "", group: str | None = None, *, clusters: int | None = None
    ) -> BindingOverview:
        self._require(namespace)
        return self._source.overview(name, namespace, group, clusters=clusters, namespaces=self._visitor.namespaces)

    def recorded_decision(
        self, record: str, name: str, namespace: str = "", *, of_page: bool = False
    ) -> PastExplanation:
        self._require(namespace)
        namespaces = self._visitor.namespaces
        return self._source.recorded_decision(record, name, namespace, of_page=of_page, namespaces=namespaces)

    def why_not(self, cluster: str, name: str, namespace: str = "", *, record: str = "") -> WhyNotView:
        self._require(namespace)
        return self._source.why_not(cluster, name, namespace, record=record)

    def history(self, query: HistoryQuery) -> HistoryPage:
        if query.name:
            self._require(query.namespace)
        return self._source.history(query, namespaces=self._visitor.namespaces)

    def moves(self, query: MoveQuery) -> MovesView:
        return self._source.moves(query._replace(namespaces=self._visitor.namespaces))

    def policies(self, query: PolicyQuery) -> PolicyList:
        return self._source.policies(query._replace(namespaces=self._visitor.namespaces))

    def policy(self, name: str, namespace: str = "") -> PolicyView:
        return self._source.policy(name, namespace, namespaces=self._visitor.namespaces)

    def resilience(
        self, by: Iterable[str] = ("cluster",), *, limit: int = 200, failover: Switch = Switch.AUTO
    ) -> ResilienceView:
        return self._source.resilience(by, limit=limit, namespaces=self._visitor.namespaces, failover=failover)

    def drift(self, query: DriftQuery) -> DriftView:
        return self._source.drift(query._replace(namespaces=self._visitor.namespaces))

    def plan(self, request: PlanRequest) -> PlanAnswer:
        for change in request.changes:
            if isinstance(change, ScaleChange):
                self._require(namespace_of(change.resource))
        return self._source.plan(replace(request, namespaces=self._visitor.namespaces))

    def _require(self, namespace: str) -> None:
        """Refuse a question about a namespace that the visitor may not see."""
        if not self._visitor.may_see(namespace):
            what = f"in the namespace {namespace}" if namespace else "without a namespace"
            raise SourceError(f"You may not list bindings {what}, so the console does not show them.", _FORBIDDEN)
