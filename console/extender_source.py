"""The source of a running console: questions to the extender over HTTP, on connections that stay open."""

import logging
import math
from collections.abc import Callable, Hashable, Iterable
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol, TypeVar

from berthmaster.ledger.records import PastExplanation
from berthmaster.model.errors import InputError, ServiceError
from berthmaster.native_api.client import Client
from berthmaster.native_api.connection import ExtenderAccess, RequestRefusedError, UnansweredError
from berthmaster.native_api.fleet import FleetView, StateVersion, WorkloadPage, WorkloadQuery
from berthmaster.native_api.outlook import BindingOverview
from berthmaster.native_api.what_if import PlanAnswer, PlanRequest
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
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields
from berthmaster.serving.reloaded_files import ReloadedFiles
from berthmaster.simulation.assumptions import Switch
from berthmaster.views.move_rows import MoveQuery
from console.answer_cache import AnswerCache
from console.source import HistoryQuery, Namespaces, SourceError

_LOG: Final = logging.getLogger("berthmaster.console")
_FILE_CHECK_S: Final = 1.0
_REFUSES_US: Final = (401, 403)
PAGE_DEADLINE_S: Final = 5.0
_LEDGER_S: Final = 2.0
"""What the ledger gets of the time of a page: without its answer, only its section is missing."""
_LEAST_S: Final = 0.05

T = TypeVar("T")


class _Versioned(Protocol):
    """An answer that says which version of the state it is about."""

    @property
    def version(self) -> str: ...


V = TypeVar("V", bound=_Versioned)


class ExtenderClients:
    """The client of the extender, made anew when a file of its credentials changes. Safe for several threads."""

    def __init__(self, access: ExtenderAccess, timeout_s: float) -> None:
        """Prepare the client, without a request."""
        self._access = access
        self._timeout_s = timeout_s
        try:
            self._files = ReloadedFiles(access.files, self._load, _cannot_use, check_interval_s=_FILE_CHECK_S)
        except (OSError, ValueError) as error:
            raise InputError(f"a file for the extender cannot be used: {error}") from None

    def client(self) -> Client:
        return self._files.content()

    def _load(self) -> Client:
        access = self._access
        pair = None
        if access.certificate_file is not None and access.key_file is not None:
            pair = (access.certificate_file, access.key_file)
        try:
            return Client(
                access.url,
                token_file=access.token_file,
                ca_file=access.ca_file,
                certificate=pair,
                timeout_s=self._timeout_s,
                connections=access.connections,
            )
        except InputError as error:
            raise ValueError(str(error)) from None


def _cannot_use(error: Exception) -> None:
    _LOG.error("new credentials for the extender are not used: a file is invalid", extra=fields(problem=str(error)))


@dataclass(frozen=True, slots=True)
class ExtenderState:
    """What is known about the extender.

    Attributes:
        version: the version of its state; empty if it is not known. Answers about this version are kept.
        lost: why it cannot be asked; None if it answers. While it is lost, no question is sent.
    """

    version: str = ""
    lost: SourceError | None = None


class ExtenderSource:
    """Asks the extender. Safe for several threads.

    If the extender does not answer, the last answer to the same question is returned.

    Attributes:
        as_of: the time of the oldest answer that was not given now; None if all are present. Only of one page.
    """

    def __init__(
        self,
        clients: ExtenderClients,
        clock: Clock,
        state: Callable[[], ExtenderState] = ExtenderState,
        page_deadline_s: float = PAGE_DEADLINE_S,
    ) -> None:
        """Prepare the source, without a request.

        Args:
            page_deadline_s: how long the questions of one page may take together. Questions that simulate have the
                timeout of the clients.
        """
        self._clients, self._clock, self._state, self._page_deadline_s = clients, clock, state, page_deadline_s
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
        return self._sent(lambda client: client.version(), self._page_deadline_s)

    def namespaces(self) -> Iterable[str]:
        return self.workloads(WorkloadQuery(limit=1)).facets.namespaces

    def fleet(self) -> FleetView:
        return self._kept("fleet", lambda client: client.fleet())

    def workloads(self, query: WorkloadQuery) -> WorkloadPage:
        return self._kept(("workloads", query), lambda client: client.workloads(query))

    def binding(self, name: str, namespace: str = "", *, namespaces: Namespaces = None) -> BindingView:
        return self._ask(lambda client: client.binding(name, namespace, namespaces=namespaces))

    def overview(
        self,
        name: str,
        namespace: str = "",
        group: str | None = None,
        *,
        clusters: int | None = None,
        namespaces: Namespaces = None,
    ) -> BindingOverview:
        # The decision depends on the time, too, so it is not kept for a version.
        return self._remembered(
            ("overview", name, namespace, group, clusters, namespaces),
            lambda: self._ask(
                lambda client: client.overview(name, namespace, group, clusters=clusters, namespaces=namespaces)
            ),
        )

    def recorded_decision(
        self, record: str, name: str, namespace: str = "", *, of_page: bool = False, namespaces: Namespaces = None
    ) -> PastExplanation:
        def ask(client: Client) -> PastExplanation:
            return client.recorded_decision(record, name, namespace, namespaces=namespaces)

        return self._ask(ask, _LEDGER_S) if of_page else self._simulated(ask)

    def why_not(self, cluster: str, name: str, namespace: str = "", *, record: str = "") -> WhyNotView:
        return self._simulated(lambda client: client.why_not(cluster, name, namespace, record=record))

    def history(self, query: HistoryQuery, *, namespaces: Namespaces = None) -> HistoryPage:
        return self._ask(lambda client: client.history(**query._asdict(), namespaces=namespaces), _LEDGER_S)

    def moves(self, query: MoveQuery) -> MovesView:
        # Windows open and deadlines pass without a new version.
        return self._remembered(("moves", query), lambda: self._ask(lambda client: client.moves(query)))

    def policies(self, query: PolicyQuery) -> PolicyList:
        return self._kept(("policies", query), lambda client: client.policies(**query._asdict()))

    def policy(self, name: str, namespace: str = "", *, namespaces: Namespaces = None) -> PolicyView:
        return self._kept(
            ("policy", name, namespace, namespaces),
            lambda client: client.policy(name, namespace, namespaces=namespaces),
        )

    def resilience(
        self,
        by: Iterable[str] = ("cluster",),
        *,
        limit: int = 200,
        namespaces: Namespaces = None,
        failover: Switch = Switch.AUTO,
    ) -> ResilienceView:
        domains = tuple(by)
        return self._kept(
            ("resilience", domains, limit, namespaces, failover),
            lambda client: client.resilience(
                domains, limit=limit, namespaces=namespaces, failover=failover, stale=True
            ),
        )

    def drift(self, query: DriftQuery) -> DriftView:
        return self._kept(("drift", query), lambda client: client.drift(query))

    def plan(self, request: PlanRequest) -> PlanAnswer:
        return self._simulated(
            lambda client: client.plan(
                request.create,
                request.update,
                request.delete,
                changes=request.changes,
                limit=request.limit,
                namespaces=request.namespaces,
                failover=request.failover,
                preemption=request.preemption,
            )
        )

    def _kept(self, question: Hashable, ask: Callable[[Client], V]) -> V:
        """Return the answer to a question, asked only if no answer about the present state is kept."""
        return self._remembered(
            question,
            lambda: self._cache.answer(
                question, self._state().version, lambda: self._ask(ask), lambda answer: answer.version
            ),
        )

    def _remembered(self, question: Hashable, ask: Callable[[], V]) -> V:
        """Return an answer; the last one if the extender does not answer."""
        try:
            answer = ask()
        except SourceError as error:
            last = self._cache.last(question) if error.unanswered else None
            if last is None:
                raise
            self.as_of = last.time if self.as_of is None else min(self.as_of, last.time)
            found: V = last.answer
            return found
        self._cache.remember(question, answer, self._clock.now())
        return answer

    def _ask(self, question: Callable[[Client], T], most_s: float = math.inf) -> T:
        """Ask within the time of the page, and within a time of its own."""
        left_s = self._page_deadline_s if self._ends_s is None else self._ends_s - self._clock.monotonic_s()
        return self._simulated(question, max(_LEAST_S, min(left_s, most_s)))

    def _simulated(self, question: Callable[[Client], T], timeout_s: float | None = None) -> T:
        """Ask a question that may take longer than a page; within the timeout of the clients if none is given."""
        if (lost := self._state().lost) is not None:
            raise SourceError(str(lost), lost.status, unanswered=True)
        return self._sent(question, timeout_s)

    def _sent(self, question: Callable[[Client], T], timeout_s: float | None) -> T:
        client = self._clients.client()
        try:
            return question(client if timeout_s is None else client.within(timeout_s))
        except ServiceError as error:
            raise for_visitors(error) from None


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
