"""Connections to estimators: the one module that knows gRPC, which is an optional part of an install."""

import asyncio
from contextlib import AsyncExitStack
from typing import Final

import grpc
from grpc import aio

from berthmaster.controllers.estimators.addresses import Naming, addresses
from berthmaster.controllers.estimators.link import Line, Metadata
from berthmaster.controllers.estimators.messages import METHOD
from berthmaster.controllers.estimators.tls import TLSOptions, Trust
from berthmaster.kube.client import APIClient
from berthmaster.model.errors import ServiceError
from berthmaster.version import __version__

CONNECT_LIMIT_S: Final = 5.0
"""How long one address may take to answer."""

_MAX_ANSWER_BYTES: Final = 64 * 1024
_MAX_TOLD: Final = 256
_OPTIONS: Final = (
    ("grpc.primary_user_agent", f"berthmaster/{__version__}"),
    ("grpc.max_receive_message_length", _MAX_ANSWER_BYTES),
    ("grpc.enable_retries", 0),  # whoever asks decides whether to ask again
    ("grpc.use_local_subchannel_pool", 1),  # a new channel is a new connection, not a dead one that others left
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 30_000),
)
_CONNECTED: Final = grpc.ChannelConnectivity.READY
_SETTLED: Final = (_CONNECTED, grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN)


class GRPCDirectory:
    """Looks Services up at an API server, and connects to what they stand for."""

    def __init__(self, client: APIClient, naming: Naming, tls: TLSOptions) -> None:
        self._client = client
        self._naming = naming
        self._tls = tls

    async def connect(self, cluster: str) -> Line:
        """See ``Directory``. Each address is tried in turn."""
        problems = []
        for address in await asyncio.to_thread(addresses, self._client, self._naming, cluster):
            try:
                return await self._open(address)
            except ServiceError as error:
                problems.append(str(error))
        raise ServiceError("; ".join(problems))

    async def _open(self, address: str) -> "GRPCLine":
        trust = await asyncio.to_thread(self._tls.trust, address)
        async with AsyncExitStack() as opened:
            line = GRPCLine(address, trust)
            opened.push_async_callback(line.close)
            try:
                async with asyncio.timeout(CONNECT_LIMIT_S):
                    await line.connected()
            except TimeoutError:
                raise ServiceError(f"{address}: no connection within {CONNECT_LIMIT_S:g} s") from None
            opened.pop_all()
        return line


class GRPCLine:
    """A channel, which reconnects by itself, with pauses that grow."""

    def __init__(self, address: str, trust: Trust | None) -> None:
        self.address = address
        self._channel = _channel(address, trust)
        self._method: aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(METHOD)
        self._closed = False

    async def connected(self) -> None:
        """Wait for the first connection.

        Raises:
            ServiceError: it failed.
        """
        state = self._channel.get_state(try_to_connect=True)
        while state not in _SETTLED:
            await self._channel.wait_for_state_change(state)
            state = self._channel.get_state()
        if state is not _CONNECTED:
            raise ServiceError(f"{self.address}: nobody answers there, or TLS could not be agreed on")

    async def call(self, request: bytes, metadata: Metadata, timeout_s: float) -> bytes:
        """See ``Line``."""
        self._check_open()
        try:
            return await self._method(request, timeout=timeout_s, metadata=metadata)
        except aio.AioRpcError as error:
            told = " ".join((error.details() or "").split())[:_MAX_TOLD]
            raise ServiceError(f"{self.address}: {error.code().name}: {told}") from None
        except asyncio.CancelledError:
            # Calls on a channel that closes are cancelled, too; that must not look like an end of the task.
            if not _cancelled():
                self._check_open()
            raise

    async def close(self) -> None:
        """See ``Line``."""
        self._closed = True
        await self._channel.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ServiceError(f"{self.address}: the connection was closed")


def _channel(address: str, trust: Trust | None) -> aio.Channel:
    if trust is None:
        return aio.insecure_channel(address, options=_OPTIONS)
    credentials = grpc.ssl_channel_credentials(trust.roots, trust.key, trust.certificate)
    name = (("grpc.ssl_target_name_override", trust.name),) if trust.name else ()
    return aio.secure_channel(address, credentials, options=(*_OPTIONS, *name))


def _cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
