"""One cluster's estimator: its connection, how it does, and what came of asking it."""

import asyncio
import logging
from collections.abc import Coroutine
from enum import Enum
from typing import Any, Final, Protocol

from berthmaster.controllers.estimators.breaker import Breaker, Health
from berthmaster.controllers.estimators.messages import encode_request, max_replicas
from berthmaster.model.errors import ServiceError
from berthmaster.runtime.logs import fields

_LOG: Final = logging.getLogger("berthmaster.estimators")
_NO_OPINION: Final = -1
"""What an estimator answers that cannot judge; below it there is nothing sensible either."""

Metadata = tuple[tuple[str, str], ...]


class Line(Protocol):
    """An open connection to one estimator."""

    async def call(self, request: bytes, metadata: Metadata, timeout_s: float) -> bytes:
        """Ask ``MaxAvailableReplicas``; the answer, encoded like the request.

        Raises:
            ServiceError: it failed, or refused.
        """

    async def close(self) -> None:
        """Hang up; calls that go on fail."""


class Directory(Protocol):
    """Knows the way to the estimator of each cluster."""

    async def connect(self, cluster: str) -> Line:
        """A new connection.

        Raises:
            ServiceError: there is no way, or nobody answers.
        """


class Result(Enum):
    """What came of asking one estimator, by the name that metrics know."""

    ANSWERED = "answered"
    NO_OPINION = "no-opinion"
    FAILED = "failed"
    OVERDUE = "overdue"
    SKIPPED = "skipped"
    """It is broken, or not connected any more, and was not waited for."""


class Link:
    """The way to one cluster's estimator. Lives in one event loop.

    Attributes:
        cluster: whose it is.
        breaker: how it does.
    """

    def __init__(self, cluster: str, directory: Directory, breaker: Breaker) -> None:
        self.cluster = cluster
        self.breaker = breaker
        self._directory = directory
        self._line: Line | None = None
        self._work: set[asyncio.Task[None]] = set()
        self._dialling = self._start(self._dial())

    async def ask(self, requirements: bytes, metadata: Metadata, timeout_s: float) -> tuple[Result, int]:
        """How many more replicas fit, in case of an answer. Never longer than ``timeout_s``; it does not fail."""
        if not self.breaker.waited_for:
            if self.breaker.begin_trial():
                self._start(self._try(requirements, metadata, timeout_s))
            return Result.SKIPPED, 0
        try:
            async with asyncio.timeout(timeout_s):
                replicas = await self._call(requirements, metadata, timeout_s)
        except TimeoutError:
            self._failed(f"no answer within {timeout_s:g} s")
            return Result.OVERDUE, 0
        except ServiceError as error:
            self._failed(str(error))
            return Result.FAILED, 0
        self._succeeded()
        return (Result.NO_OPINION, 0) if replicas <= _NO_OPINION else (Result.ANSWERED, replicas)

    async def dialled(self) -> None:
        """Wait until the first connection was made, or failed."""
        await asyncio.wait([self._dialling])

    async def close(self) -> None:
        """Hang up. Whoever waits for an answer gets none."""
        for task in list(self._work):
            task.cancel()
        if self._work:
            await asyncio.wait(list(self._work))
        await self._hang_up()

    async def _call(self, requirements: bytes, metadata: Metadata, timeout_s: float) -> int:
        if self._line is None:
            await self.dialled()
        if self._line is None:
            raise ServiceError("there is no connection")
        answer = await self._line.call(encode_request(self.cluster, requirements), metadata, timeout_s)
        return max_replicas(answer)

    async def _dial(self) -> None:
        try:
            self._line = await self._directory.connect(self.cluster)
        except ServiceError as error:
            self._broke(str(error))

    async def _try(self, requirements: bytes, metadata: Metadata, timeout_s: float) -> None:
        """A trial: everything anew, for the Service or the certificates may be others now."""
        try:
            await self._hang_up()
            self._line = await self._directory.connect(self.cluster)
            async with asyncio.timeout(timeout_s):
                await self._call(requirements, metadata, timeout_s)
        except TimeoutError:
            self._broke(f"no answer within {timeout_s:g} s")
        except ServiceError as error:
            self._broke(str(error))
        else:
            self._succeeded()

    async def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    def _succeeded(self) -> None:
        before = self.breaker.health
        self.breaker.succeeded()
        if before is not Health.WELL:
            _LOG.info("a scheduler estimator answers again", extra=fields(cluster=self.cluster))

    def _failed(self, problem: str) -> None:
        before = self.breaker.health
        self.breaker.failed()
        self._tell_worse(before, problem)

    def _broke(self, problem: str) -> None:
        before = self.breaker.health
        self.breaker.broke()
        self._tell_worse(before, problem)

    def _tell_worse(self, before: Health, problem: str) -> None:
        if self.breaker.health is not before:
            _LOG.warning(
                "a scheduler estimator %s; its cluster's summary decides alone",
                "is not waited for any more" if self.breaker.health is Health.BROKEN else "failed",
                extra=fields(cluster=self.cluster, problem=problem),
            )

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task
