"""A typed client of the native API: ``Client("https://extender:9443").schedule(binding)``.

It uses the types of ``berthmaster.native_api.wire`` and persistent connections. Safe for several threads.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Self, TypeVar
from urllib.parse import quote, urlencode

from berthmaster.ledger.records import PastExplanation
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import FieldError, InputError, ServiceError
from berthmaster.native_api import why, wire
from berthmaster.native_api.connection import ExtenderAccess, RequestRefusedError, ServiceConnection
from berthmaster.native_api.days import FleetDays
from berthmaster.native_api.drift import DriftQuery, DriftView
from berthmaster.native_api.fleet import FleetView, StateVersion, WorkloadPage, WorkloadQuery
from berthmaster.native_api.policies import PolicyList, PolicyQuery, PolicyView
from berthmaster.native_api.problems import ProblemList
from berthmaster.native_api.what_if import PlanAnswer, PlanLine, PlanRequest
from berthmaster.simulation.plan_answer import Switch
from berthmaster.views.move_rows import MoveQuery

T = TypeVar("T")
_ListQuery = DriftQuery | wire.HistoryQuery | MoveQuery | PolicyQuery


class Client:
    """A client of one service.

    Requests raise a ``ServiceError`` if the service refuses them, does not have or watch what they are about, or cannot
    be reached.
    """

    def __init__(
        self,
        url: str,
        *,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        certificate: tuple[Path, Path] | None = None,
        timeout_s: float = 30.0,
        connections: int = 1,
    ) -> None:
        """Prepare the client, without a request.

        Args:
            url: ``http://HOST:PORT`` or ``https://HOST:PORT``.
            connections: the connections that are kept open, for that many threads.

        Raises:
            InputError: the URL or a file is invalid.
        """
        certificate_file, key_file = certificate or (None, None)
        access = ExtenderAccess(url, ca_file, token_file, certificate_file, key_file, connections)
        try:
            self._connection = ServiceConnection(access, timeout_s)
        except (OSError, ValueError) as error:
            raise InputError(f"cannot connect to {url}: {error}") from None

    @classmethod
    def on(cls, connection: ServiceConnection) -> Self:
        """Return a client that uses a connection."""
        client = cls.__new__(cls)
        client._connection = connection  # noqa: SLF001 - an object of this class
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. The next request opens a new one."""
        self._connection.close()

    def within(self, timeout_s: float) -> Self:
        """Return a client on the same connections that waits at most this long for each part of an answer."""
        other = copy(self)
        other._connection = self._connection.within(timeout_s)  # noqa: SLF001 - a copy of this object
        return other

    def schedule(
        self, binding: Binding, clusters: Sequence[Cluster] | None = None, *, explain: bool = False
    ) -> wire.Decided:
        """Schedule a binding on the fleet of the service, or on these clusters."""
        request = wire.ScheduleRequest(binding, None if clusters is None else tuple(clusters))
        return self._connection.request(
            "POST", _with_query("/v1/schedule", explain=explain), wire.Decided, encode_json(request)
        )

    def plan(self, request: PlanRequest, *, given_up: Callable[[], bool] | None = None) -> PlanAnswer:
        """Return what changes of policies, clusters and replicas would move.

        Args:
            given_up: asked about each second. If it returns true, the question ends with an ``AbandonedError``, and so
                does the work of the service.
        """
        body = encode_json(request)
        if given_up is None:
            return self._connection.request("POST", "/v1/plan", PlanAnswer, body)
        return self._connection.last_of("/v1/plan/progress", body, _plan_of, given_up)

    def clusters(self) -> Iterator[wire.ClusterView]:
        after: str | None = ""
        while after is not None:
            page = self._connection.request("GET", f"/v1/clusters?{urlencode({'after': after})}", wire.ClusterList)
            yield from page.items
            after = page.next

    def version(self) -> StateVersion:
        """Return the version of the service's state. It is cheap, and changes whenever another answer may change."""
        return self._connection.request("GET", "/v1/version", StateVersion)

    def fleet(self) -> FleetView:
        """Return all clusters, and what is assigned to them."""
        return self._connection.request("GET", "/v1/fleet", FleetView)

    def workloads(self, query: WorkloadQuery | None = None) -> WorkloadPage:
        """Return a page of the workloads that a query matches; of all workloads by default."""
        # The namespaces of a reader may exceed a request line.
        return self._connection.request("POST", "/v1/workloads", WorkloadPage, encode_json(query or WorkloadQuery()))

    def binding(self, name: str, namespace: str = "", *, namespaces: Iterable[str] | None = None) -> wire.BindingView:
        """Return a binding as the service knows it; one without a namespace is cluster-scoped."""
        return self._for_reader(_path_of(name, namespace), wire.BindingView, namespaces)

    def decision(
        self, name: str, namespace: str = "", *, namespaces: Iterable[str] | None = None
    ) -> wire.BindingExplanation:
        """Explain the decision on a binding. The arguments and errors are those of ``binding``."""
        return self._for_reader(f"{_path_of(name, namespace)}/decision", wire.BindingExplanation, namespaces)

    def recorded_decision(
        self, record: str, name: str, namespace: str = "", *, namespaces: Iterable[str] | None = None
    ) -> PastExplanation:
        """Explain a recorded decision on a binding, with the fleet as it was, and what changed since the one before."""
        path = f"{_path_of(name, namespace)}/decisions/{quote(record, safe='')}"
        return self._for_reader(path, PastExplanation, namespaces)

    def history(self, query: wire.HistoryQuery) -> wire.HistoryPage:
        """Return what is on record, the latest first."""
        return self._listed("/v1/history", wire.HistoryPage, query)

    def days(self, *, namespaces: Iterable[str] | None = None) -> FleetDays:
        """Return how many workloads had which problem on each of the last days."""
        return self._for_reader("/v1/days", FleetDays, namespaces)

    def why_not(self, cluster: str, name: str, namespace: str = "", *, record: str = "") -> why.WhyNotView:
        """Return the smallest change under which a cluster would get a workload.

        Args:
            record: the id of a recorded decision; empty for the present.
        """
        path = f"{_path_of(name, namespace)}/why-not"
        return self._for_reader(path, why.WhyNotView, None, cluster=cluster, record=record)

    def problems(self, *, namespaces: Iterable[str] | None = None) -> ProblemList:
        """Return what is broken, the worst first."""
        return self._for_reader("/v1/problems", ProblemList, namespaces)

    def moves(self, query: MoveQuery | None = None) -> why.MovesView:
        """Return what moves, what waits and for what; the first 1,000 moves by default."""
        asked = query or MoveQuery(limit=1000)
        state, sort = asked.state and asked.state.word, f"{'-' if asked.descending else ''}{asked.sort.value}"
        return self._listed("/v1/moves", why.MovesView, asked, state=state, sort=sort, descending=None)

    def policies(self, query: PolicyQuery | None = None) -> PolicyList:
        """Return policies: what they claim, what the rules find, takeovers and priority drops."""
        return self._listed("/v1/policies", PolicyList, query or PolicyQuery())

    def policy(self, name: str, namespace: str = "", *, namespaces: Iterable[str] | None = None) -> PolicyView:
        """Return one policy and what its placement allows; one without a namespace is a ClusterPropagationPolicy."""
        where = f"policies/{quote(namespace, safe='')}" if namespace else "clusterpolicies"
        return self._for_reader(f"/v1/{where}/{quote(name, safe='')}", PolicyView, namespaces)

    def resilience(
        self,
        by: Iterable[str] = ("cluster",),
        *,
        limit: int = 200,
        namespaces: Iterable[str] | None = None,
        failover: Switch = Switch.AUTO,
        stale: bool = False,
    ) -> why.ResilienceView:
        """Return what each failure of a cluster, region, zone or provider alone would do.

        Args:
            by: what fails as a whole: ``cluster``, ``region``, ``zone`` or ``provider``.
            stale: whether to answer soon, with the last figures. Without any, the error has the progress.
        """
        return self._for_reader(
            "/v1/resilience", why.ResilienceView, namespaces, by=tuple(by), limit=limit, failover=failover, stale=stale
        )

    def drift(self, query: DriftQuery) -> DriftView:
        """Return how far the fleet is from its policies, and what a repair would move."""
        return self._listed("/v1/drift", DriftView, query)

    def manifests(
        self, name: str, namespace: str = "", *, namespaces: Iterable[str] | None = None
    ) -> why.BindingManifests:
        """Return a binding and its workload as manifests, without what may be confidential."""
        return self._for_reader(f"{_path_of(name, namespace)}/manifests", why.BindingManifests, namespaces)

    def events(self, name: str, namespace: str = "") -> why.BindingEvents:
        """Return the events of a binding that the API server has; one without a namespace is cluster-scoped."""
        return self._connection.request("GET", f"{_path_of(name, namespace)}/events", why.BindingEvents)

    def overview(
        self,
        name: str,
        namespace: str = "",
        group: str | None = None,
        *,
        clusters: int | None = None,
        namespaces: Iterable[str] | None = None,
    ) -> why.BindingOverview:
        """Return all that the state of the service says about a binding; one without a namespace is cluster-scoped.

        Args:
            group: the group whose clusters are explained, empty for a placement without groups; None for none.
            clusters: the most clusters of each stage of a group; None for all.
        """
        path = f"{_path_of(name, namespace)}/overview"
        if group == "":  # it stands for a placement without groups
            path += "?group="
        return self._for_reader(path, why.BindingOverview, namespaces, group=group, clusters=clusters)

    def _listed(self, path: str, answer: type[T], query: _ListQuery, **changes: object) -> T:
        given = {**query._asdict(), **changes}
        return self._for_reader(path, answer, given.pop("namespaces"), **given)

    def _for_reader(self, path: str, answer: type[T], namespaces: Iterable[str] | None, **query: object) -> T:
        """Return an answer for a reader. The query has no empty values. No namespaces are not all namespaces."""
        given = urlencode({name: word for name, value in query.items() if (word := _word(value))})
        address = f"{path}{'&' if '?' in path else '?'}{given}" if given else path
        if namespaces is None:
            return self._connection.request("GET", address, answer)
        # The namespaces of a reader may exceed a request line.
        return self._connection.request("POST", address, answer, encode_json(wire.ReaderRequest(frozenset(namespaces))))


def _word(value: object) -> str:
    """Return the value of a query parameter; empty for none."""
    match value:
        case None | False:
            return ""
        case True:
            return "true"
        case Enum():
            return str(value.value)
        case datetime():
            return value.isoformat()
        case tuple():
            return ",".join(map(_word, value))
    return str(value)


def _path_of(name: str, namespace: str) -> str:
    where = f"bindings/{quote(namespace, safe='')}" if namespace else "clusterbindings"
    return f"/v1/{where}/{quote(name, safe='')}"


def _with_query(path: str, *, explain: bool) -> str:
    return f"{path}?explain=true" if explain else path


def _plan_of(line: bytes) -> PlanAnswer | None:
    """Return the plan of a line; None if the line says only how far it is."""
    try:
        found = decode_json(PlanLine, line)
    except FieldError as error:
        raise ServiceError(f"the plan cannot be decoded: {error}") from None
    if found.problem is not None:
        raise RequestRefusedError(found.problem, found.problem.status)
    return found.plan
