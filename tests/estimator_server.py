"""Estimators on loopback, played by a real gRPC server, and an API server that knows their Services."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import grpc
from estimator_messages import parsed, proto

from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError

SERVICE = "github.com.karmada_io.karmada.pkg.estimator.service.Estimator"
HANG = "hang"
"""An answer that does not come until the server closes."""


@dataclass
class EstimatorServer:
    """One cluster's estimator.

    Attributes:
        cluster: whose; others are refused, as Karmada's server does.
        says: its answer: a number, a status to fail with, ``HANG``, or the bytes of the answer.
        asked: the requests so far, with what stood in their metadata.
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
        """Listen, on the same port as before."""
        self._closing.clear()
        self._server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        handler = grpc.unary_unary_rpc_method_handler(self._answer)
        self._server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(SERVICE, {"MaxAvailableReplicas": handler})]
        )
        address = f"127.0.0.1:{self.port}"
        if self.credentials is None:
            self.port = self._server.add_insecure_port(address)
        else:
            self.port = self._server.add_secure_port(address, self.credentials)
        self._server.start()

    def close(self) -> None:
        """Vanish."""
        self._closing.set()
        self._server.stop(0).wait(5)

    def _answer(self, content: bytes, context: grpc.ServicerContext) -> bytes:
        request = parsed("MaxAvailableReplicasRequest", content)
        self.asked.append((request, dict(context.invocation_metadata()).get("object", "")))
        if request.cluster != self.cluster:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"this is {self.cluster}")
        says = self.says
        if says == HANG:
            self._closing.wait(10)
            says = 0
        if isinstance(says, grpc.StatusCode):
            context.abort(says, "as told")
        if isinstance(says, bytes):
            return says
        answer: bytes = proto("MaxAvailableReplicasResponse", maxReplicas=says).SerializeToString()
        return answer


def external(port: int, host: str = "127.0.0.1", **changes: Any) -> dict[str, Any]:
    """A Service that leads to a port."""
    ports = [{"port": 10352, "targetPort": port}]
    return {"spec": {"type": "ExternalName", "externalName": host, "ports": ports, **changes}}


@dataclass
class Services:
    """An API server that knows nothing but Services, by name; a number is the status it refuses with.

    Attributes:
        known: what it answers.
        otherwise: what it answers of all others.
        asked: the paths so far.
    """

    known: dict[str, Any] = field(default_factory=dict)
    otherwise: Any = 404
    asked: list[str] = field(default_factory=list)

    def lead(self, server: EstimatorServer) -> None:
        """Know the Service of an estimator."""
        self.known[f"karmada-scheduler-estimator-{server.cluster}"] = external(server.port)

    def send(self, request: APIRequest) -> "Answered":
        self.asked.append(request.path)
        found = self.known.get(request.path.rpartition("/")[2], self.otherwise)
        if isinstance(found, int):
            raise ApiError(found, "Told", f"GET {request.path}: {found}")
        return Answered(found if isinstance(found, bytes) else json.dumps(found).encode())


class Answered(AbstractContextManager["Answered"]):
    """An answer that is there already."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __exit__(self, *_: object) -> None:
        pass

    def chunks(self) -> Iterator[bytes]:
        yield self._content

    def abort(self) -> None:
        pass


def eventually(holds: Callable[[], bool], within_s: float = 5.0) -> bool:
    """Whether something comes to hold."""
    tick = threading.Event()
    for _ in range(int(within_s / 0.01)):
        if holds():
            return True
        tick.wait(0.01)
    return holds()
