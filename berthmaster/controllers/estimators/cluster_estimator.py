"""The estimator of one cluster: its channel, its circuit breaker, and its answers."""

import asyncio
import logging
from collections.abc import Coroutine
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from berthmaster.controllers.estimators import messages
from berthmaster.controllers.estimators.circuit_breaker import CircuitBreaker, EstimatorHealth
from berthmaster.controllers.estimators.messages import Metadata, Question
from berthmaster.model.errors import ServiceError
from berthmaster.runtime.logs import fields

if TYPE_CHECKING:  # gRPC is an optional dependency
    from berthmaster.controllers.estimators.channels import GRPCChannel, GRPCConnector

_LOG: Final = logging.getLogger("berthmaster.estimators")
_NO_OPINION: Final = -1
"""The answer of an estimator that cannot estimate. Smaller numbers count as the same."""


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
