"""gRPC channels to estimators. This is the only module that imports gRPC, which is an optional dependency."""

import asyncio
from contextlib import AsyncExitStack
from typing import Final

import grpc
from grpc import aio

from berthmaster.controllers.estimators.endpoints import TLSMaterial, addresses, tls_material
from berthmaster.controllers.estimators.messages import METHODS, Metadata
from berthmaster.controllers.settings import EstimatorSettings
from berthmaster.kube.client import APIClient
from berthmaster.model.errors import ServiceError
from berthmaster.version import __version__

CONNECT_LIMIT_S: Final = 5.0
"""The longest time that a connection to one address may take."""

_MAX_RESPONSE_BYTES: Final = 64 * 1024
_MAX_DETAILS: Final = 256
_OPTIONS: Final = (
    ("grpc.primary_user_agent", f"berthmaster/{__version__}"),
    ("grpc.max_receive_message_length", _MAX_RESPONSE_BYTES),
    ("grpc.enable_retries", 0),  # the caller decides about retries
    ("grpc.use_local_subchannel_pool", 1),  # a new channel gets a new connection, not a dead one from a pool
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 30_000),
)
_CONNECTED: Final = grpc.ChannelConnectivity.READY
_SETTLED: Final = (_CONNECTED, grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN)


class GRPCConnector:
    """Looks up Services, and opens channels to their addresses."""

    def __init__(self, client: APIClient, settings: EstimatorSettings) -> None:
        self._client = client
        self._settings = settings

    async def connect(self, cluster: str) -> "GRPCChannel":
        """Open a channel to the first address of an estimator that answers. Raises ``ServiceError`` if none does."""
        problems = []
        for address in await asyncio.to_thread(addresses, self._client, self._settings, cluster):
            try:
                return await self._open(address)
            except ServiceError as error:
                problems.append(str(error))
        raise ServiceError("; ".join(problems))

    async def _open(self, address: str) -> "GRPCChannel":
        tls = await asyncio.to_thread(tls_material, self._settings, address)
        async with AsyncExitStack() as opened:
            channel = GRPCChannel(address, tls)
            opened.push_async_callback(channel.close)
            try:
                async with asyncio.timeout(CONNECT_LIMIT_S):
                    await channel.wait_until_connected()
            except TimeoutError:
                raise ServiceError(f"{address}: no connection within {CONNECT_LIMIT_S:g} s") from None
            opened.pop_all()
        return channel


class GRPCChannel:
    """A channel to one address. gRPC reconnects it with backoff."""

    def __init__(self, address: str, tls: TLSMaterial | None) -> None:
        self.address = address
        self._channel = _channel(address, tls)
        self._methods: dict[str, aio.UnaryUnaryMultiCallable[bytes, bytes]] = {
            name: self._channel.unary_unary(name) for name in METHODS
        }
        self._closed = False

    async def wait_until_connected(self) -> None:
        """Wait for the first connection. Raises ``ServiceError`` if the connection failed."""
        state = self._channel.get_state(try_to_connect=True)
        while state not in _SETTLED:
            await self._channel.wait_for_state_change(state)
            state = self._channel.get_state()
        if state is not _CONNECTED:
            raise ServiceError(f"{self.address}: connection refused, or the TLS handshake failed")

    async def call(self, method: str, request: bytes, metadata: Metadata, timeout_s: float) -> bytes:
        """Call one of ``METHODS``. Raises ``ServiceError`` if the call failed, or the channel was closed."""
        self._check_open()
        try:
            return await self._methods[method](request, timeout=timeout_s, metadata=metadata)
        except aio.AioRpcError as error:
            details = " ".join((error.details() or "").split())[:_MAX_DETAILS]
            raise ServiceError(f"{self.address}: {error.code().name}: {details}") from None
        except asyncio.CancelledError:
            # gRPC also cancels the calls of a channel that closes. That must not end the calling task.
            if not _cancelled():
                self._check_open()
            raise

    async def close(self) -> None:
        """Close the channel. Pending calls fail."""
        self._closed = True
        await self._channel.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ServiceError(f"{self.address}: the connection was closed")


def _channel(address: str, tls: TLSMaterial | None) -> aio.Channel:
    if tls is None:
        return aio.insecure_channel(address, options=_OPTIONS)
    credentials = grpc.ssl_channel_credentials(tls.roots, tls.key, tls.certificate)
    name = (("grpc.ssl_target_name_override", tls.server_name),) if tls.server_name else ()
    return aio.secure_channel(address, credentials, options=(*_OPTIONS, *name))


def _cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
