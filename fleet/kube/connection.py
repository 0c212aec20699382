"""The one way to an API server: the official client's configuration and transport, and nothing else of it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import urllib3
import yaml
from kubernetes import client, config

from fleet.errors import ApiError, InputError
from fleet.kube.messages import status_of
from fleet.kube.requests import Get
from fleet.kube.transport import Answer

CONNECT_TIMEOUT_S: Final = 10.0
_MAX_PROBLEM_BYTES: Final = 64 * 1024
_ACCEPT: Final = "application/json"
_CHUNK: Final = 64 * 1024
# The client walks through a file that may hold anything, and complains of it in all these ways.
_UNUSABLE: Final = (
    config.ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError,
)  # fmt: skip


class OfficialConnection:
    """A connection through the official client. Safe for several threads."""

    def __init__(self, configuration: client.Configuration) -> None:
        configuration.retries = False  # whoever asks decides whether to ask again
        configuration.keep_alive = True  # so that a host that vanished is noticed
        self._client = client.ApiClient(configuration)

    def send(self, request: Get) -> Answer:
        """Send a request; see ``Connection``."""
        method, url, headers, _, _ = self._client.param_serialize(
            "GET",
            request.path,
            query_params=list(request.query),
            header_params={"Accept": _ACCEPT},
            auth_settings=["BearerToken"],
        )
        try:
            answer = self._client.call_api(
                method, url, headers, _request_timeout=(CONNECT_TIMEOUT_S, request.silence_s)
            ).response
        except (client.ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(0, "", f"GET {request.path}: {_told(error)}") from None
        if answer.status != 200:
            raise _refused(request, answer)
        return _Streamed(request, answer)


def connect(kubeconfig: Path | None, context: str | None = None) -> OfficialConnection:
    """A connection to the API server of a kubeconfig file, or, without one, of the cluster that this runs in.

    Raises:
        InputError: the file cannot be used, or this runs in no cluster.
    """
    configuration = client.Configuration()
    try:
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call] # it has none
        else:
            config.load_kube_config(  # type: ignore[no-untyped-call] # it has none
                str(kubeconfig), context=context, client_configuration=configuration, persist_config=False
            )
    except _UNUSABLE as error:
        where = kubeconfig or "the configuration inside a cluster"
        raise InputError(f"{where}: {_told(error)}; name a kubeconfig file with access to the API server") from None
    return OfficialConnection(configuration)


class _Streamed(AbstractContextManager["_Streamed"]):
    """An answer of urllib3."""

    def __init__(self, request: Get, answer: urllib3.BaseHTTPResponse) -> None:
        self._request = request
        self._answer = answer

    def __exit__(self, *_: object) -> None:
        self._answer.close()

    def chunks(self) -> Iterator[bytes]:
        try:
            while chunk := self._answer.read1(_CHUNK):
                yield chunk
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise ApiError(0, "", f"GET {self._request.path}: {_told(error)}") from None

    def abort(self) -> None:
        try:
            self._answer.shutdown()
        except (ValueError, OSError, RuntimeError):
            self._answer.close()  # it has ended by itself meanwhile


def _refused(request: Get, answer: urllib3.BaseHTTPResponse) -> ApiError:
    """An error status; a body that is a ``v1.Status`` says more."""
    try:
        body = answer.read(_MAX_PROBLEM_BYTES)
    except (urllib3.exceptions.HTTPError, OSError):
        body = b""
    finally:
        answer.close()
    told = status_of(body)
    message = f"GET {request.path}: {answer.status} {told.message or answer.reason or ''}".rstrip()
    return ApiError(answer.status, told.reason, message)


def _told(error: Exception) -> str:
    """A transport's error in a line."""
    reason: Any = getattr(error, "reason", None) or error
    return " ".join(str(reason).split())[:512] or type(error).__name__
