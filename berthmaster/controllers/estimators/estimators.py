"""The estimators of all clusters: a decision asks them at the same time, under one deadline."""

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

from prometheus_client import Counter, Gauge, Histogram

from berthmaster.controllers.estimators.circuit_breaker import CircuitBreaker
from berthmaster.controllers.estimators.cluster_estimator import ClusterEstimator, EstimateResult
from berthmaster.controllers.estimators.endpoints import check_tls
from berthmaster.controllers.estimators.messages import Metadata, Question
from berthmaster.controllers.estimators.queries import EstimatorQuery
from berthmaster.controllers.settings import EstimatorSettings
from berthmaster.kube.client import APIClient
from berthmaster.model.errors import InputError
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.installation import extra_remedy
from berthmaster.runtime.logs import fields

if TYPE_CHECKING:  # gRPC is an optional dependency
    from berthmaster.controllers.estimators.channels import GRPCConnector

_LOG: Final = logging.getLogger("berthmaster.estimators")
T = TypeVar("T")
ESTIMATES: Final = Counter(
    "berthmaster_scheduler_estimates", "Requests to scheduler estimators, by result.", ("result",)
)
ESTIMATING: Final = Histogram(
    "berthmaster_scheduler_estimating_duration_seconds", "Time that decisions waited for estimators.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)  # fmt: skip
BROKEN_ESTIMATORS: Final = Gauge(
    "berthmaster_scheduler_broken_estimators",
    "Clusters with an open circuit breaker: decisions do not wait for their estimators.",
)
_MAX_LOOKUPS: Final = 16
_GRACE_S: Final = 1.0  # for the event loop to notice the timeout
_CLOSING_LIMIT_S: Final = 5.0
_MAX_DESCRIPTION: Final = 512


class Estimators:
    """The estimators of the added clusters. Safe for several threads.

    All connections belong to one event loop in its own thread. gRPC's blocking interface would start a thread for each
    cluster that is asked.
    """

    def __init__(self, connector: "GRPCConnector", clock: Clock, timeout_s: float) -> None:
        """Start the event loop. ``timeout_s`` limits how long a decision waits for all answers together."""
        self._connector = connector
        self._clock = clock
        self._timeout_s = timeout_s
        self._clusters: dict[str, ClusterEstimator] = {}
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._lookups = ThreadPoolExecutor(_MAX_LOOKUPS, thread_name_prefix="estimator-lookup")
        self._loop.set_default_executor(self._lookups)
        self._thread = threading.Thread(target=self._loop.run_forever, name="estimators", daemon=True)
        self._thread.start()

    def add(self, cluster: str) -> None:
        """Connect to a cluster's estimator in the background, unless that was done already."""
        if not self._closed:
            self._loop.call_soon_threadsafe(self._add, cluster)

    def remove(self, cluster: str) -> None:
        if not self._closed:
            self._submit(self._remove(cluster))

    def max_available(self, query: EstimatorQuery, timeout_s: float | None = None) -> dict[str, int]:
        """Ask for the available replicas by cluster. Clusters whose estimator does not answer are missing.

        All estimators are asked at once, under one deadline. The call blocks and raises no error.
        """
        if self._closed:
            return {}
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            question = query.encode(*query.content)
        except InputError as error:
            _LOG.warning(
                "a binding cannot be sent to scheduler estimators; the summaries of clusters are used",
                extra=fields(workload=query.workload, problem=str(error)),
            )
            return {}
        metadata = (("object", _printable(query.workload)),)
        asked = self._submit(self._ask(query.clusters, question, metadata, timeout_s))
        try:
            return asked.result(timeout_s + _GRACE_S)
        except TimeoutError:
            asked.cancel()
            return {}

    def close(self) -> None:
        """Close all connections. The object is unusable afterwards."""
        self._closed = True
        closing = self._submit(self._close())
        try:
            closing.result(_CLOSING_LIMIT_S)
        except TimeoutError:
            _LOG.warning("connections to scheduler estimators did not close in time")
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSING_LIMIT_S)
        self._lookups.shutdown(wait=False, cancel_futures=True)
        if not self._thread.is_alive():
            self._loop.close()

    def _submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _add(self, cluster: str) -> None:
        if cluster not in self._clusters:
            self._clusters[cluster] = ClusterEstimator(cluster, self._connector, CircuitBreaker(self._clock))

    async def _remove(self, cluster: str) -> None:
        estimator = self._clusters.pop(cluster, None)
        if estimator is not None:
            await estimator.close()

    async def _ask(
        self, clusters: Sequence[str], question: Question, metadata: Metadata, timeout_s: float
    ) -> dict[str, int]:
        estimators = [each for name in clusters if (each := self._clusters.get(name)) is not None]
        began_s = self._clock.monotonic_s()
        results = await asyncio.gather(*(each.ask(question, metadata, timeout_s) for each in estimators))
        ESTIMATING.observe(self._clock.monotonic_s() - began_s)
        for result, _ in results:
            ESTIMATES.labels(result.value).inc()
        BROKEN_ESTIMATORS.set(sum(not each.breaker.closed for each in self._clusters.values()))
        return {
            each.cluster: replicas
            for each, (result, replicas) in zip(estimators, results, strict=True)
            if result is EstimateResult.ANSWERED
        }

    async def _close(self) -> None:
        estimators, self._clusters = list(self._clusters.values()), {}
        await asyncio.gather(*(each.close() for each in estimators))


def open_estimators(settings: EstimatorSettings, client: APIClient, clock: Clock) -> Estimators:
    """Create the estimators, without clusters. The caller must close them.

    Raises:
        InputError: the settings contradict each other, a file is invalid, or gRPC or protobuf is not installed.
    """
    check_tls(settings)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its lines are not JSON, and failures are logged here
    try:
        import google.protobuf  # noqa: F401, PLC0415 - an optional dependency, which the first question would miss

        from berthmaster.controllers.estimators.channels import GRPCConnector  # noqa: PLC0415 - an optional dependency
    except ModuleNotFoundError as error:
        raise InputError(
            f"scheduler estimators need gRPC and protobuf, and {error.name} is not installed: "
            f"{extra_remedy('estimator')}, or leave them disabled"
        ) from None
    return Estimators(GRPCConnector(client, settings), clock, settings.timeout_s)


def _printable(text: str) -> str:
    """Return the text as gRPC metadata: printable ASCII of bounded length."""
    return "".join(each if " " <= each <= "~" else "?" for each in text[:_MAX_DESCRIPTION])
