"""Fake estimators behind a real gRPC server, and an API server with their Services."""

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import grpc
from estimator_messages import parsed, proto
from waiting import LIMIT_S

from berthmaster.controllers.estimators.estimators import Estimators
from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError

SERVICE = "github.com.karmada_io.karmada.pkg.estimator.service.Estimator"
HANG = "hang"
"""Answer nothing until the server closes."""


@dataclass
class EstimatorServer:
    """One cluster's estimator.

    Attributes:
        cluster: the cluster. Requests for other clusters are refused, as Karmada's server does.
        says: the answer: a number, a status to fail with, ``HANG``, the bytes of the response, or a function of the
            request that returns one of these.
        asked: the requests so far, with the object of their metadata.
    """

    cluster: str
    says: Any = 0
    credentials: Any = None
    port: int = 0
    asked: list[tuple[Any, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._closing = threading.Event()
        self.open()

    def open(self) -> None:
        """Listen on the same port as before."""
        self._closing.clear()
        self._server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        handler = grpc.unary_unary_rpc_method_handler(self._answer)
        sets = grpc.unary_unary_rpc_method_handler(self._answer_sets)
        unschedulable = grpc.unary_unary_rpc_method_handler(self._answer_unschedulable)
        handlers = {
            "MaxAvailableReplicas": handler,
            "MaxAvailableComponentSets": sets,
            "GetUnschedulableReplicas": unschedulable,
        }
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
        address = f"127.0.0.1:{self.port}"
        if self.credentials is None:
            self.port = self._server.add_insecure_port(address)
        else:
            self.port = self._server.add_secure_port(address, self.credentials)
        self._server.start()

    def close(self) -> None:
        """Stop at once."""
        self._closing.set()
        self._server.stop(0).wait(5)

    def _answer_sets(self, content: bytes, context: grpc.ServicerContext) -> bytes:
        return self._answer(content, context, "MaxAvailableComponentSetsRequest")

    def _answer_unschedulable(self, content: bytes, context: grpc.ServicerContext) -> bytes:
        return self._answer(content, context, "UnschedulableReplicasRequest")

    def _answer(
        self, content: bytes, context: grpc.ServicerContext, message: str = "MaxAvailableReplicasRequest"
    ) -> bytes:
        request = parsed(message, content)
        self.asked.append((request, dict(context.invocation_metadata()).get("object", "")))
        if request.cluster != self.cluster:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"this is {self.cluster}")
        says = self.says(request) if callable(self.says) else self.says
        if says == HANG:
            self._closing.wait(10)
            says = 0
        if isinstance(says, grpc.StatusCode):
            context.abort(says, "requested by the test")
        if isinstance(says, bytes):
            return says
        answer: bytes = proto("MaxAvailableReplicasResponse", maxReplicas=says).SerializeToString()
        return answer


def external(port: int, host: str = "127.0.0.1", **changes: Any) -> dict[str, Any]:
    ports = [{"port": 10352, "targetPort": port}]
    return {"spec": {"type": "ExternalName", "externalName": host, "ports": ports, **changes}}


@dataclass
class Services:
    """An API server with Services by name. A number is an error status.

    Attributes:
        known: the Services.
        otherwise: the response for other names.
        asked: the requested paths.
    """

    known: dict[str, Any] = field(default_factory=dict)
    otherwise: Any = 404
    asked: list[str] = field(default_factory=list)

    def lead(self, server: EstimatorServer) -> None:
        self.known[f"karmada-scheduler-estimator-{server.cluster}"] = external(server.port)

    def send(self, request: APIRequest) -> "Answered":
        self.asked.append(request.path)
        found = self.known.get(request.path.rpartition("/")[2], self.otherwise)
        if isinstance(found, int):
            raise ApiError(found, "Refused", f"GET {request.path}: {found}")
        return Answered(found if isinstance(found, bytes) else json.dumps(found).encode())


class Answered(AbstractContextManager["Answered"]):
    """A response in memory."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __exit__(self, *_: object) -> None:
        pass

    def chunks(self) -> Iterator[bytes]:
        yield self._content

    def abort(self) -> None:
        pass


def wait_until_connected(estimators: Estimators, within_s: float = LIMIT_S) -> None:
    """Wait until the first connection to each estimator succeeded or failed."""

    async def wait() -> None:
        await asyncio.gather(*(each.wait_until_connected() for each in list(estimators._clusters.values())))  # noqa: SLF001 - only a test waits for connections

    asyncio.run_coroutine_threadsafe(wait(), estimators._loop).result(within_s)  # noqa: SLF001 - only a test waits for connections
