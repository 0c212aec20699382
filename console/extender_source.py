"""The source of a running console: questions to the extender over HTTP, on connections that stay open."""

import logging
from collections.abc import Callable, Hashable, Iterable
from typing import Final, Protocol, TypeVar

from berthmaster.ledger.records import PastExplanation
from berthmaster.model.errors import InputError, ServiceError
from berthmaster.native_api.access import ExtenderAccess
from berthmaster.native_api.client import Client
from berthmaster.native_api.connection import RequestRefusedError, UnansweredError
from berthmaster.native_api.fleet import FleetView, StateVersion, WorkloadPage, WorkloadQuery
from berthmaster.native_api.outlook import BindingOutlook
from berthmaster.native_api.what_if import PlanAnswer, PlanRequest
from berthmaster.native_api.why import ClaimsView, MovesView, PolicyList, PolicyQuery, ResilienceView, WhyNotView
from berthmaster.native_api.wire import BindingExplanation, BindingView, HistoryPage
from berthmaster.runtime.logs import fields
from berthmaster.serving.reloaded_files import ReloadedFiles
from console.answer_cache import AnswerCache
from console.source import Namespaces, SourceError

_LOG: Final = logging.getLogger("berthmaster.console")
_FILE_CHECK_S: Final = 1.0
_REFUSES_US: Final = (401, 403)

T = TypeVar("T")


class _Versioned(Protocol):
    """An answer that says which version of the state it is about."""

    @property
    def version(self) -> str: ...


V = TypeVar("V", bound=_Versioned)


class ExtenderClients:
    """The client of the extender, made anew when a file of its credentials changes. Safe for several threads."""

    def __init__(self, access: ExtenderAccess, timeout_s: float) -> None:
        """Prepare the client, without a request.

        Args:
            access: where the extender is, and how to authenticate.
            timeout_s: the timeout for each part of an answer.

        Raises:
            InputError: a file cannot be used.
        """
        self._access = access
        self._timeout_s = timeout_s
        try:
            self._files = ReloadedFiles(access.files, self._load, _cannot_use, check_interval_s=_FILE_CHECK_S)
        except (OSError, ValueError) as error:
            raise InputError(f"a file for the extender cannot be used: {error}") from None

    def client(self) -> Client:
        """Return the client with the last usable credentials."""
        return self._files.content()

    def _load(self) -> Client:
        """Return a client with the credentials of the files.

        Raises:
            ValueError: a file cannot be used.
        """
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


class ExtenderSource:
    """Asks the extender. Safe for several threads."""

    def __init__(self, clients: ExtenderClients, version: Callable[[], str] = lambda: "") -> None:
        """Prepare the source, without a request.

        Args:
            clients: clients of the extender.
            version: returns the version of the extender's state, or an empty text if it is not known. Answers about
                this version are kept.
        """
        self._clients = clients
        self._version = version
        self._cache = AnswerCache()

    def version(self) -> StateVersion:
        """Return the version of the extender's state."""
        return self._ask(lambda client: client.version())

    def namespaces(self) -> Iterable[str]:
        """Return the namespaces that have workloads."""
        return self.workloads(WorkloadQuery(limit=1)).facets.namespaces

    def fleet(self) -> FleetView:
        return self._kept("fleet", lambda client: client.fleet())

    def workloads(self, query: WorkloadQuery) -> WorkloadPage:
        return self._kept(("workloads", query), lambda client: client.workloads(query))

    def binding(self, name: str, namespace: str = "", *, namespaces: Namespaces = None) -> BindingView:
        return self._ask(lambda client: client.binding(name, namespace, namespaces=namespaces))

    def decision(self, name: str, namespace: str = "", *, namespaces: Namespaces = None) -> BindingExplanation:
        return self._ask(lambda client: client.decision(name, namespace, namespaces=namespaces))

    def outlook(self, name: str, namespace: str = "", group: str | None = None) -> BindingOutlook:
        return self._ask(lambda client: client.outlook(name, namespace, group))

    def recorded_decision(
        self, record: str, name: str, namespace: str = "", *, namespaces: Namespaces = None
    ) -> PastExplanation:
        return self._ask(lambda client: client.recorded_decision(record, name, namespace, namespaces=namespaces))

    def claims(self, name: str, namespace: str = "") -> ClaimsView:
        return self._kept(("claims", name, namespace), lambda client: client.claims(name, namespace))

    def why_not(self, cluster: str, name: str, namespace: str = "", *, record: str = "") -> WhyNotView:
        return self._ask(lambda client: client.why_not(cluster, name, namespace, record=record))

    def history(
        self,
        namespace: str,
        kind: str,
        name: str,
        *,
        after: str = "",
        limit: int = 50,
        namespaces: Namespaces = None,
    ) -> HistoryPage:
        return self._ask(
            lambda client: client.history(
                namespace=namespace, kind=kind, name=name, after=after, limit=limit, namespaces=namespaces
            )
        )

    def moves(self, *, namespaces: Namespaces = None, limit: int = 1000) -> MovesView:
        return self._kept(("moves", namespaces, limit), lambda client: client.moves(namespaces=namespaces, limit=limit))

    def policies(self, query: PolicyQuery) -> PolicyList:
        return self._kept(("policies", query), lambda client: client.policies(**query._asdict()))

    def resilience(
        self, by: Iterable[str] = ("cluster",), *, limit: int = 200, namespaces: Namespaces = None
    ) -> ResilienceView:
        domains = tuple(by)
        return self._kept(
            ("resilience", domains, limit, namespaces),
            lambda client: client.resilience(domains, limit=limit, namespaces=namespaces),
        )

    def plan(self, request: PlanRequest) -> PlanAnswer:
        return self._ask(
            lambda client: client.plan(
                request.create,
                request.update,
                request.delete,
                changes=request.changes,
                limit=request.limit,
                namespaces=request.namespaces,
            )
        )

    def _kept(self, question: Hashable, ask: Callable[[Client], V]) -> V:
        """Return the answer to a question, asked only if no answer about the present state is kept."""
        return self._cache.answer(question, self._version(), lambda: self._ask(ask), lambda answer: answer.version)

    def _ask(self, question: Callable[[Client], T]) -> T:
        try:
            return question(self._clients.client())
        except ServiceError as error:
            raise for_visitors(error) from None


def for_visitors(error: ServiceError) -> SourceError:
    """Return the error with a message for people who do not run the console."""
    match error:
        case ServiceError(status=status) if status in _REFUSES_US:
            return SourceError("The extender does not accept the credentials of the console.", status)
        case UnansweredError(late=True):
            return SourceError("The extender did not answer in time. Try again later, or ask for less.", 503)
        case UnansweredError(url=url, problem=problem, status=status):
            return SourceError(f"The extender at {url} {problem}", status)
        case RequestRefusedError(detail=detail, request_id=request_id, status=status):
            return SourceError(f"{_sentence(detail)} (request {request_id})", status, detail, error.errors)
        case _:
            return SourceError(_sentence(str(error)), error.status)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
