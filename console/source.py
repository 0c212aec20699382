"""The extender as the pages ask it, over HTTP, on connections that stay open.

Answers are kept while the state of the extender does not change. Errors have messages for visitors.
"""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from datetime import datetime
from typing import Concatenate, Final, NamedTuple, ParamSpec, Protocol, TypeVar

from msgspec.structs import replace

from berthmaster.ledger.records import PastExplanation
from berthmaster.model.errors import InputError, ServiceError
from berthmaster.native_api import why, wire
from berthmaster.native_api.client import Client
from berthmaster.native_api.connection import ExtenderAccess, RequestRefusedError, ServiceConnection, UnansweredError
from berthmaster.native_api.days import FleetDays
from berthmaster.native_api.drift import DriftQuery, DriftView
from berthmaster.native_api.fleet import FleetView, StateVersion, WorkloadPage, WorkloadQuery
from berthmaster.native_api.policies import PolicyList, PolicyQuery, PolicyView
from berthmaster.native_api.problems import ProblemList
from berthmaster.native_api.what_if import PlanAnswer, PlanRequest
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields
from berthmaster.serving.reloaded_files import ReloadedFiles
from berthmaster.simulation.changes import WorkloadEdit
from berthmaster.simulation.plan_answer import Switch
from berthmaster.views.move_rows import MoveQuery
from console.answer_cache import AnswerCache
from console.visitor import Visitor

_LOG: Final = logging.getLogger("berthmaster.console")
_FILE_CHECK_S: Final = 1.0
_REFUSES_US: Final = (401, 403)
_FORBIDDEN: Final = 403
PAGE_DEADLINE_S: Final = 5.0
_LEDGER_S: Final = 2.0
"""What the ledger gets of the time of a page: without its answer, only its section is missing."""
_LEAST_S: Final = 0.05

T = TypeVar("T")
P = ParamSpec("P")


class _Versioned(Protocol):
    """An answer that says which version of the state it is about."""

    @property
    def version(self) -> str: ...


V = TypeVar("V", bound=_Versioned)


class SourceError(ServiceError):
    """The extender cannot be asked, or it refuses the question. The message is for the visitor.

    Attributes:
        status: the HTTP status of the extender's answer; 0 if there was none.
        unanswered: whether the extender gave no answer of its own, so that an earlier answer is the best one.
    """

    def __init__(
        self,
        message: str,
        status: int = 0,
        detail: str = "",
        errors: Sequence[wire.InvalidField] = (),
        *,
        unanswered: bool = False,
        progress: wire.Progress | None = None,
    ) -> None:
        self.detail = detail
        self.errors = errors
        self.unanswered = unanswered
        self.progress = progress
        super().__init__(message, status)


def extender_clients(access: ExtenderAccess, timeout_s: float) -> Callable[[], Client]:
    """Return a function: the client of the extender, made anew when a file of its credentials changes.

    Raises:
        InputError: a file cannot be used.
    """

    def load() -> Client:
        return Client.on(ServiceConnection(access, timeout_s))

    try:
        return ReloadedFiles(access.files, load, _cannot_use, check_interval_s=_FILE_CHECK_S).content
    except (OSError, ValueError) as error:
        raise InputError(f"a file for the extender cannot be used: {error}") from None


def _cannot_use(error: Exception) -> None:
    _LOG.error("new credentials for the extender are not used: a file is invalid", extra=fields(problem=str(error)))


class ExtenderState(NamedTuple):
    """What is known about the extender.

    Attributes:
        version: the last known version of its state.
        settling: whether its processes may have different versions.
        lost: why it cannot be asked; None if it answers. While it is lost, no question is sent.
        notice: what is wrong with it or with its source, for visitors; empty if nothing is.
    """

    version: str = ""
    settling: bool = False
    lost: SourceError | None = None
    notice: str = ""

    @property
    def known_version(self) -> str:
        """The version if the extender answers, and empty otherwise. Answers about this version are kept."""
        return "" if self.lost else self.version

    @property
    def mark(self) -> str:
        """What a page carries that shows this state; empty while the state is not known."""
        return "" if self.lost else f"{self.version}{'~' if self.settling else ''}"


class ExtenderSource:
    """Asks the extender. Safe for several threads.

    A question is a method of ``Client`` and its arguments. If the extender does not answer ``kept`` or ``remembered``,
    the last answer to the same question is returned.

    Attributes:
        as_of: the time of the oldest answer that was not given now; None if all are present. Only of one page.
    """

    def __init__(
        self,
        client: Callable[[], Client],
        clock: Clock,
        state: Callable[[], ExtenderState] = ExtenderState,
        page_deadline_s: float = PAGE_DEADLINE_S,
    ) -> None:
        """Prepare the source, without a request.

        Args:
            client: returns the present client. Safe for several threads.
            page_deadline_s: how long the questions of one page may take together. Questions that simulate have the
                timeout of the client.
        """
        self._client, self._clock, self._state, self._page_deadline_s = client, clock, state, page_deadline_s
        self._cache = AnswerCache()
        self._ends_s: float | None = None
        self.as_of: datetime | None = None

    def for_page(self) -> "ExtenderSource":
        """Return the source for one page, whose time begins now."""
        page = copy(self)
        page._ends_s = self._clock.monotonic_s() + self._page_deadline_s  # noqa: SLF001 - a copy of this object
        page.as_of = None
        return page

    def version(self) -> StateVersion:
        """Return the version of the extender's state. A lost extender is asked, too."""
        return self._sent(Client.version, self._page_deadline_s)

    def namespaces(self) -> Iterable[str]:
        return self.kept(Client.workloads, WorkloadQuery(limit=1)).facets.namespaces

    def kept(self, ask: Callable[Concatenate[Client, P], V], *args: P.args, **kwargs: P.kwargs) -> V:
        """Return an answer that depends on the state of the extender alone. It is kept while the state is the same."""
        question = (ask, args, frozenset(kwargs.items()))

        def answer() -> V:
            return self.fresh(ask, *args, **kwargs)

        version = self._state().known_version
        return self._last_of(question, lambda: self._cache.answer(question, version, answer, lambda it: it.version))

    def remembered(self, ask: Callable[Concatenate[Client, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return an answer that depends on the time, too."""
        question = (ask, args, frozenset(kwargs.items()))
        return self._last_of(question, lambda: self.fresh(ask, *args, **kwargs))

    def fresh(self, ask: Callable[Concatenate[Client, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask within the time of the page."""
        return self._within(math.inf, lambda client: ask(client, *args, **kwargs))

    def recorded(self, ask: Callable[Concatenate[Client, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask the ledger, within its part of the time of the page."""
        return self._within(_LEDGER_S, lambda client: ask(client, *args, **kwargs))

    def simulated(self, ask: Callable[Concatenate[Client, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask a question that may take longer than a page, within the timeout of the clients."""
        return self._unless_lost(lambda client: ask(client, *args, **kwargs), None)

    def _last_of(self, question: object, ask: Callable[[], T]) -> T:
        """Return an answer; the last one if the extender does not answer."""
        try:
            answer = ask()
        except SourceError as error:
            last = self._cache.last(question) if error.unanswered else None
            if last is None:
                raise
            self.as_of = last.time if self.as_of is None else min(self.as_of, last.time)
            found: T = last.answer
            return found
        self._cache.remember(question, answer, self._clock.now())
        return answer

    def _within(self, most_s: float, question: Callable[[Client], T]) -> T:
        left_s = self._page_deadline_s if self._ends_s is None else self._ends_s - self._clock.monotonic_s()
        return self._unless_lost(question, max(_LEAST_S, min(left_s, most_s)))

    def _unless_lost(self, question: Callable[[Client], T], timeout_s: float | None) -> T:
        if (lost := self._state().lost) is not None:
            raise SourceError(str(lost), lost.status, unanswered=True)
        return self._sent(question, timeout_s)

    def _sent(self, question: Callable[[Client], T], timeout_s: float | None) -> T:
        client = self._client()
        try:
            return question(client if timeout_s is None else client.within(timeout_s))
        except ServiceError as error:
            raise for_visitors(error) from None


class VisibleSource:
    """The extender as the pages of one visitor ask it. Safe for several threads.

    Each method asks the question of ``berthmaster.native_api.client.Client`` with the same name, and raises a
    ``SourceError``. Each question carries the namespaces of the visitor; the extender filters. Totals of clusters and
    of plans count all namespaces.
    """

    def __init__(
        self,
        source: ExtenderSource,
        visitor: Visitor,
        has_gone: Callable[[], bool] = lambda: False,
        may_list_events: Callable[[str], bool] = lambda _namespace: True,
    ) -> None:
        """Prepare the source of one request.

        Args:
            has_gone: returns whether the visitor has closed the connection.
            may_list_events: returns whether the visitor may list the events of a namespace.
        """
        self._source, self._has_gone, self._may_list_events = source.for_page(), has_gone, may_list_events
        self._visitor = visitor
        self._seen = visitor.namespaces

    @property
    def as_of(self) -> datetime | None:
        """The time of the oldest answer so far that was not given now; None if all are present."""
        return self._source.as_of

    def fleet(self) -> FleetView:
        return self._source.kept(Client.fleet)

    def workloads(self, query: WorkloadQuery) -> WorkloadPage:
        return self._source.kept(Client.workloads, replace(query, namespaces=self._seen))

    def binding(self, name: str, namespace: str = "") -> wire.BindingView:
        self._require(namespace)
        return self._source.fresh(Client.binding, name, namespace, namespaces=self._seen)

    def overview(
        self, name: str, namespace: str = "", group: str | None = None, *, clusters: int | None = None
    ) -> why.BindingOverview:
        self._require(namespace)
        # The decision depends on the time, too, so it is not kept for a version.
        return self._source.remembered(
            Client.overview, name, namespace, group, clusters=clusters, namespaces=self._seen
        )

    def manifests(self, name: str, namespace: str = "") -> why.BindingManifests:
        self._require(namespace)
        return self._source.fresh(Client.manifests, name, namespace, namespaces=self._seen)

    def events(self, name: str, namespace: str = "") -> why.BindingEvents:
        self._require(namespace)
        if not self._may_list_events(namespace):
            where = f"of the namespace {namespace}" if namespace else "about objects without a namespace"
            raise SourceError(f"You may not list the events {where}.", _FORBIDDEN)
        return self._source.recorded(Client.events, name, namespace)

    def recorded_decision(
        self, record: str, name: str, namespace: str = "", *, of_page: bool = False
    ) -> PastExplanation:
        self._require(namespace)
        ask = self._source.recorded if of_page else self._source.simulated
        return ask(Client.recorded_decision, record, name, namespace, namespaces=self._seen)

    def why_not(self, cluster: str, name: str, namespace: str = "", *, record: str = "") -> why.WhyNotView:
        self._require(namespace)
        return self._source.simulated(Client.why_not, cluster, name, namespace, record=record)

    def history(self, query: wire.HistoryQuery) -> wire.HistoryPage:
        if query.name:
            self._require(query.namespace)
        return self._source.recorded(Client.history, query._replace(namespaces=self._seen))

    def days(self) -> FleetDays:
        return self._source.kept(Client.days, namespaces=self._seen)

    def moves(self, query: MoveQuery) -> why.MovesView:
        # Windows open and deadlines pass without a new version.
        return self._source.remembered(Client.moves, query._replace(namespaces=self._seen))

    def problems(self) -> ProblemList:
        # Deadlines of moves pass without a new version.
        return self._source.remembered(Client.problems, namespaces=self._seen)

    def policies(self, query: PolicyQuery) -> PolicyList:
        return self._source.kept(Client.policies, query._replace(namespaces=self._seen))

    def policy(self, name: str, namespace: str = "") -> PolicyView:
        return self._source.kept(Client.policy, name, namespace, namespaces=self._seen)

    def resilience(
        self, by: Iterable[str] = ("cluster",), *, limit: int = 200, failover: Switch = Switch.AUTO
    ) -> why.ResilienceView:
        return self._source.kept(
            Client.resilience, tuple(by), limit=limit, namespaces=self._seen, failover=failover, stale=True
        )

    def drift(self, query: DriftQuery) -> DriftView:
        return self._source.kept(Client.drift, query._replace(namespaces=self._seen))

    def plan(self, request: PlanRequest) -> PlanAnswer:
        for change in request.changes:
            if isinstance(change, WorkloadEdit):
                self._require(change.resource.namespace)
        return self._source.simulated(Client.plan, replace(request, namespaces=self._seen), given_up=self._has_gone)

    def _require(self, namespace: str) -> None:
        """Refuse a question about a namespace that the visitor may not see."""
        if not self._visitor.may_see(namespace):
            what = f"in the namespace {namespace}" if namespace else "without a namespace"
            raise SourceError(f"You may not list bindings {what}, so the console does not show them.", _FORBIDDEN)


def for_visitors(error: ServiceError) -> SourceError:
    """Return the error with a message for people who do not run the console."""
    match error:
        case ServiceError(status=status) if status in _REFUSES_US:
            return SourceError("The extender does not accept the credentials of the console.", status)
        case UnansweredError(late=True):
            text = "The extender did not answer in time. Try again later, or ask for less."
            return SourceError(text, 503, unanswered=True)
        case UnansweredError(url=url, problem=problem, status=status):
            return SourceError(f"The extender at {url} {problem}", status, unanswered=True)
        case RequestRefusedError(detail=detail, request_id=request_id, status=status):
            text = f"{_sentence(detail)} (request {request_id})"
            return SourceError(text, status, detail, error.errors, progress=error.progress)
        case _:
            # Not the extender wrote this, but for example a proxy before it.
            return SourceError(_sentence(str(error)), error.status, unanswered=True)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
