"""The estimators: of each cluster its channel and its circuit breaker, and which of them a decision asks."""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from prometheus_client import Counter, Gauge, Histogram

from berthmaster.controllers.estimators import messages
from berthmaster.controllers.estimators.endpoints import check_tls
from berthmaster.controllers.estimators.messages import Metadata, Question
from berthmaster.controllers.settings import EstimatorSettings
from berthmaster.deciding.config import RebalanceSettings
from berthmaster.kube.client import APIClient
from berthmaster.kube.requests import key_text
from berthmaster.model.binding import Binding, BindingSpec, ObjectReference
from berthmaster.model.errors import InputError, ServiceError
from berthmaster.runtime.clock import Backoff, Clock
from berthmaster.runtime.installation import extra_remedy
from berthmaster.runtime.logs import fields
from berthmaster.scheduling.columns import TooLargeError, Work
from berthmaster.scheduling.fleet import Group, Strategy, strategy_of
from berthmaster.scheduling.karmada.selection import places_whole_sets
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

if TYPE_CHECKING:  # gRPC is an optional dependency
    from berthmaster.controllers.estimators.channels import GRPCChannel, GRPCConnector

FAILURES_UNTIL_BROKEN: Final = 3
"""The number of consecutive failures that decisions wait for."""
FIRST_TRIAL_WAIT_S: Final = 5.0
LONGEST_TRIAL_WAIT_S: Final = 60.0

_LOG: Final = logging.getLogger("berthmaster.estimators")
_TRIAL_LIMIT_S: Final = 120.0  # longer than any trial takes, so that only one runs at a time
_NO_OPINION: Final = -1
"""The answer of an estimator that cannot estimate. Smaller numbers count as the same."""


class EstimatorHealth(Enum):
    """The state of a circuit breaker."""

    HEALTHY = "healthy"
    FAILING = "failing"
    """The last request failed. The next one may succeed."""
    BROKEN = "broken"
    """Decisions do not wait for the estimator until a trial in the background succeeds."""


class CircuitBreaker:
    """Counts consecutive failures, and schedules trials of a broken estimator.

    Trials run in the background, so decisions never wait for a broken estimator.
    """

    def __init__(self, clock: Clock, trial_backoff: Backoff | None = None) -> None:
        self.health = EstimatorHealth.HEALTHY
        self._clock = clock
        self._trial_backoff = trial_backoff or Backoff(FIRST_TRIAL_WAIT_S, LONGEST_TRIAL_WAIT_S)
        self._failures = 0
        self._due_s = 0.0

    @property
    def closed(self) -> bool:
        """Whether decisions wait for the estimator."""
        return self.health is not EstimatorHealth.BROKEN

    def begin_trial(self) -> bool:
        """Whether a trial is due. The caller that gets True runs it, and reports its result."""
        now_s = self._clock.monotonic_s()
        if self.closed or now_s < self._due_s:
            return False
        self._due_s = now_s + _TRIAL_LIMIT_S
        return True

    def succeeded(self) -> None:
        self.health, self._failures = EstimatorHealth.HEALTHY, 0
        self._trial_backoff.reset()

    def failed(self) -> None:
        """Report a failed request of a decision. It does not delay the next trial."""
        self._failures += 1
        if self.health is EstimatorHealth.BROKEN:
            return
        self.health = EstimatorHealth.FAILING
        if self._failures >= FAILURES_UNTIL_BROKEN:
            self.open()

    def open(self) -> None:
        """Report that there is no connection, or that a trial failed: the next trial waits, longer each time."""
        self.health = EstimatorHealth.BROKEN
        self._due_s = self._clock.monotonic_s() + self._trial_backoff.next_s()


class EstimateResult(Enum):
    """The result of asking one estimator, by its name in metrics."""

    ANSWERED = "answered"
    NO_OPINION = "no-opinion"
    FAILED = "failed"
    OVERDUE = "overdue"
    SKIPPED = "skipped"
    """The circuit breaker is open: the decision did not wait."""


class ClusterEstimator:
    """One cluster's estimator. All methods run in one event loop."""

    def __init__(self, cluster: str, connector: "GRPCConnector", breaker: CircuitBreaker) -> None:
        self.cluster = cluster
        self.breaker = breaker
        self._connector = connector
        self._channel: GRPCChannel | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._connecting = self._start(self._connect())

    async def ask(self, question: Question, metadata: Metadata, timeout_s: float) -> tuple[EstimateResult, int]:
        """Ask for the available replicas or sets; the number counts only with ``ANSWERED``.

        The call takes at most ``timeout_s`` and raises no error.
        """
        if not self.breaker.closed:
            if self.breaker.begin_trial():
                self._start(self._try(question, metadata, timeout_s))
            return EstimateResult.SKIPPED, 0
        try:
            async with asyncio.timeout(timeout_s):
                replicas = await self._call(question, metadata, timeout_s)
        except TimeoutError:
            self._report(f"no response within {timeout_s:g} s")
            return EstimateResult.OVERDUE, 0
        except ServiceError as error:
            self._report(str(error))
            return EstimateResult.FAILED, 0
        self._report()
        return (EstimateResult.NO_OPINION, 0) if replicas <= _NO_OPINION else (EstimateResult.ANSWERED, replicas)

    async def wait_until_connected(self) -> None:
        """Wait until the first connection succeeded or failed."""
        await asyncio.wait([self._connecting])

    async def close(self) -> None:
        """Close the connection. Pending requests end without an answer."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        await self._disconnect()

    async def _call(self, question: Question, metadata: Metadata, timeout_s: float) -> int:
        if self._channel is None:
            await self.wait_until_connected()
        if self._channel is None:
            raise ServiceError("there is no connection to the estimator")
        request = question.request(self.cluster)
        return messages.answered_number(await self._channel.call(question.method, request, metadata, timeout_s))

    async def _connect(self) -> None:
        try:
            self._channel = await self._connector.connect(self.cluster)
        except ServiceError as error:
            self._report(str(error), broken=True)

    async def _try(self, question: Question, metadata: Metadata, timeout_s: float) -> None:
        """Run a trial over a new connection: the Service or the certificates may have changed."""
        try:
            await self._disconnect()
            self._channel = await self._connector.connect(self.cluster)
            async with asyncio.timeout(timeout_s):
                await self._call(question, metadata, timeout_s)
        except TimeoutError:
            self._report(f"no response within {timeout_s:g} s", broken=True)
        except ServiceError as error:
            self._report(str(error), broken=True)
        else:
            self._report()

    async def _disconnect(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    def _report(self, problem: str = "", *, broken: bool = False) -> None:
        """Report a success (no problem) or a failure to the circuit breaker, and log a change of its state."""
        before = self.breaker.health
        if not problem:
            self.breaker.succeeded()
        elif broken:
            self.breaker.open()
        else:
            self.breaker.failed()
        if self.breaker.health is before:
            return
        if not problem:
            _LOG.info("a scheduler estimator answers again", extra=fields(cluster=self.cluster))
            return
        state = "is skipped" if self.breaker.health is EstimatorHealth.BROKEN else "failed"
        _LOG.warning(
            "a scheduler estimator %s; the cluster's summary is used",
            state,
            extra=fields(cluster=self.cluster, problem=problem),
        )

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


T = TypeVar("T")

SHORTEST_STUCK_S: Final = 60
"""Replicas that are unschedulable for less time never leave their cluster, because it may just be adding a node."""

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


@dataclass(frozen=True, slots=True)
class EstimatorQuery:
    """A question to the estimators, for one decision.

    Attributes:
        clusters: the clusters that pass the filters in any group that may be tried, each once.
        encode: encodes the question from its content, later: a decision under the lock only collects the content. It
            raises ``InputError`` if a node affinity is invalid.
        workload: the workload's kind and name, for the logs of the estimators.
    """

    clusters: Sequence[str]
    encode: Callable[..., Question]
    content: tuple[Any, ...]
    workload: str


def query_of(scheduler: Scheduler, request: Request, spec: BindingSpec) -> EstimatorQuery | None:
    """Return the query for a decision; None if capacity does not matter for it, or the decision is too large.

    The function reads the scheduler: the caller must not change it at the same time.
    """
    if not request.replicas and not request.components:
        return None
    work = Work(scheduler.profile.limits.steps)
    try:
        compiled = scheduler.compile(request.placement)
        groups = compiled.groups[0 if request.fresh else compiled.group_index(request.observed_group) :]
        if not _needs_capacity(request, groups):
            return None
        rows = {row for group in groups for row in scheduler.fitting(request, group, work).tolist()}
    except TooLargeError:
        return None
    clusters = [cluster.name for row in sorted(rows) if (cluster := scheduler.fleet.clusters[row]) is not None]
    if not clusters:
        return None
    workload = _named(spec.resource)
    if spec.components and places_whole_sets(request, compiled):
        return EstimatorQuery(clusters, messages.sets_question, (spec.components, spec.resource.namespace), workload)
    return EstimatorQuery(clusters, messages.replicas_question, (spec.replica_requirements,), workload)


def stuck_query_of(binding: Binding, missing: Mapping[str, int], settings: RebalanceSettings) -> EstimatorQuery | None:
    """Return the query for the replicas that are unschedulable for too long; None if they do not matter.

    As for karmada-descheduler, only Deployments that are divided by available replicas count. Estimators of Karmada
    know no other kind. Only clusters with ``missing`` replicas are asked: those that their members report as not ready.
    """
    resource, placement = binding.spec.resource, binding.spec.placement
    if (
        settings.mode == "Off"
        or placement is None
        or (resource.api_version, resource.kind) != ("apps/v1", "Deployment")
    ):
        return None
    if strategy_of(placement.replica_scheduling) not in {Strategy.DYNAMIC_WEIGHT, Strategy.AGGREGATED}:
        return None
    content = (resource, max(settings.after_s, SHORTEST_STUCK_S))
    return EstimatorQuery(sorted(missing), messages.unschedulable_question, content, _named(resource))


def _named(workload: ObjectReference) -> str:
    return f"{workload.kind} {key_text((workload.namespace, workload.name))}"


def _needs_capacity(request: Request, groups: Sequence[Group]) -> bool:
    """Whether capacity can change the decision. It cannot for copies and static weights on all clusters that fit."""
    if strategy_of(request.placement.replica_scheduling) in {Strategy.DYNAMIC_WEIGHT, Strategy.AGGREGATED}:
        return True
    return bool(request.placement.spread_constraints) or any(group.overflow for group in groups)


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
