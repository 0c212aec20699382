"""The extender as the pages ask it: one method for each question, answers of the native API's types."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from berthmaster.ledger.records import PastExplanation
from berthmaster.model.errors import ServiceError
from berthmaster.native_api.fleet import FleetView, WorkloadPage, WorkloadQuery
from berthmaster.native_api.outlook import BindingOutlook
from berthmaster.native_api.problem import InvalidField
from berthmaster.native_api.what_if import PlanAnswer, PlanRequest
from berthmaster.native_api.why import ClaimsView, MovesView, PolicyList, PolicyQuery, ResilienceView, WhyNotView
from berthmaster.native_api.wire import BindingExplanation, BindingView, HistoryPage


class SourceError(ServiceError):
    """The extender cannot be asked, or it refuses the question. The message is for the visitor.

    Attributes:
        status: the HTTP status of the extender's answer; 0 if there was none.
        detail: why the extender refuses, as it wrote it; empty if it wrote nothing.
        errors: the fields of the question that the extender refuses.
    """

    def __init__(self, message: str, status: int = 0, detail: str = "", errors: Sequence[InvalidField] = ()) -> None:
        self.detail = detail
        self.errors = errors
        super().__init__(message, status)


Namespaces = frozenset[str] | None
"""The namespaces that a reader may see, ``-`` for objects without one; None for all."""


class Source(Protocol):
    """Answer questions about the fleet, as ``berthmaster.native_api.client.Client`` does.

    Safe for several threads. Every method raises ``SourceError``.
    """

    def fleet(self) -> FleetView:
        """Return all clusters, and what is assigned to them."""

    def workloads(self, query: WorkloadQuery) -> WorkloadPage:
        """Return a page of the workloads that a query matches. ``query.namespaces`` is set for the visitor."""

    def binding(self, name: str, namespace: str = "") -> BindingView:
        """Return a binding; one without a namespace is cluster-scoped."""

    def decision(self, name: str, namespace: str = "") -> BindingExplanation:
        """Explain the decision on a binding, as it would be made now."""

    def outlook(self, name: str, namespace: str = "", group: str | None = None) -> BindingOutlook:
        """Return what each group of a binding could hold. ``group`` is the one whose clusters are explained."""

    def recorded_decision(self, record: str, name: str, namespace: str = "") -> PastExplanation:
        """Explain a recorded decision on a binding, as it was."""

    def claims(self, name: str, namespace: str = "") -> ClaimsView:
        """Return which policy holds the workload of a binding, and which others match it."""

    def why_not(self, cluster: str, name: str, namespace: str = "", *, record: str = "") -> WhyNotView:
        """Return the smallest change under which a cluster would get a workload, now or at a recorded decision."""

    def history(self, namespace: str, kind: str, name: str, *, after: str = "", limit: int = 50) -> HistoryPage:
        """Return what is on record about one workload, the latest first."""

    def moves(self, *, limit: int = 1000) -> MovesView:
        """Return what moves, what waits and for what."""

    def policies(self, query: PolicyQuery) -> PolicyList:
        """Return a page of the policies that a query selects. ``query.namespaces`` is set for the visitor."""

    def resilience(self, by: Iterable[str] = ("cluster",), *, limit: int = 200) -> ResilienceView:
        """Return what each failure of a cluster, region, zone or provider alone would do."""

    def plan(self, request: PlanRequest) -> PlanAnswer:
        """Return what changes of policies, clusters and replicas would move."""
