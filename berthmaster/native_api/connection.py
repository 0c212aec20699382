"""The HTTP connection of a client of the native API: one persistent connection, with its credentials."""

import http.client
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError, InputError, ServiceError
from berthmaster.native_api.problem import Problem

_JSON: Final = "application/json"
_JSON_LINES: Final = "application/x-ndjson"
_WINDOW_BYTES: Final = 32 * 2**10
"""The size of the lines that are sent before answers are read. The network buffers can hold them."""
_MAX_LINE_BYTES: Final = 64 * 2**20

T = TypeVar("T")


class RequestRefusedError(ServiceError):
    """The service refused a request, and said why.

    Attributes:
        detail: the reason, as the service wrote it.
        errors: the invalid fields of the request.
        request_id: the id of the request in its log.
    """

    def __init__(self, problem: Problem, status: int) -> None:
        self.detail = problem.detail
        self.errors = problem.errors
        self.request_id = problem.request_id
        super().__init__(f"the service refused the request: {self.detail} (request {self.request_id})", status)


class UnansweredError(ServiceError):
    """The service did not answer, or its answer cannot be read.

    Attributes:
        url: the address of the service.
        problem: what is wrong, without the address.
        late: whether the timeout passed.
    """

    def __init__(self, url: str, problem: str, status: int = 0, *, late: bool = False) -> None:
        self.url = url
        self.problem = problem
        self.late = late
        super().__init__(f"{url} {problem}", status)


class ServiceConnection:
    """A connection to one service. Requests raise a ``ServiceError`` if it refuses them or cannot be reached."""

    def __init__(
        self,
        url: str,
        token_file: Path | None,
        ca_file: Path | None,
        certificate: tuple[Path, Path] | None,
        timeout_s: float,
    ) -> None:
        """Prepare the connection, without a request. ``Client`` describes the arguments and errors."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path not in {"", "/"}:
            raise InputError(
                f"{url!r} is not an address of a service; accepted is http://HOST:PORT or https://HOST:PORT"
            )
        self._url = url
        self._headers = {"Accept": _JSON}
        try:
            if token_file is not None:
                token = token_file.read_text().partition("\n")[0].partition(",")[0].strip()
                self._headers["Authorization"] = f"Bearer {token}"
            if parts.scheme == "http":
                self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
            else:
                context = ssl.create_default_context(cafile=ca_file)
                if certificate is not None:
                    context.load_cert_chain(*certificate)
                self._connection = http.client.HTTPSConnection(
                    parts.hostname, parts.port, timeout=timeout_s, context=context
                )
        except (OSError, ValueError) as error:
            raise InputError(f"cannot connect to {url}: {error}") from None

    def close(self) -> None:
        """Close the connection. The next request opens a new one."""
        self._connection.close()

    def request(self, method: str, path: str, answer: type[T], body: bytes | None = None) -> T:
        """Send a request, and return its answer. It is sent again if the service closed the idle connection.

        Raises:
            ServiceError: the service refuses the request, cannot be reached, or sends something else.
        """
        headers = self._headers if body is None else {**self._headers, "Content-Type": _JSON}
        try:
            try:
                response = self._response_to(method, path, body, headers)
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                # The service closed the idle connection. A repeated request has no side effects.
                self._connection.close()
                response = self._response_to(method, path, body, headers)
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise self._unreachable(error) from None
        _require_success(response, content)
        try:
            return decode_json(answer, content)
        except FieldError as error:
            raise UnansweredError(self._url, f"sent an answer that cannot be decoded: {error}", 200) from None

    def stream(self, path: str, lines: Iterator[bytes], decode: Callable[[bytes], T]) -> Iterator[T]:
        """Yield one answer for each line, in order, while sending the lines.

        Args:
            path: the path to POST to.
            lines: the lines of the body.
            decode: decodes a line of the answer.

        Raises:
            ServiceError: the service refuses the request or cannot be reached; the errors of ``decode``.
        """
        connection = self._connection
        try:
            window = _window(lines)
            if not window:
                return
            chunk = _chunk(window)  # before the head: from then on, the service waits for the body
            connection.putrequest("POST", path)
            for name, value in {**self._headers, "Content-Type": _JSON_LINES, "Transfer-Encoding": "chunked"}.items():
                connection.putheader(name, value)
            connection.endheaders()
            self._send(chunk)
            response = connection.getresponse()
            _require_success(response, b"" if response.status == http.client.OK else response.read())
            while window:
                for _ in window:
                    yield decode(response.readline(_MAX_LINE_BYTES))
                window = _window(lines)
                self._send(_chunk(window))
            response.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        finally:
            connection.close()

    def _response_to(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        try:
            self._connection.request(method, path, body, headers)
        except (ConnectionResetError, BrokenPipeError) as error:
            try:
                return self._connection.getresponse()  # see _send
            except http.client.ResponseNotReady:
                raise error from None  # nothing was sent
        return self._connection.getresponse()

    def _send(self, data: bytes) -> None:
        """Send a part of a body. If the service stops reading it, its answer has the reason."""
        with suppress(ConnectionResetError, BrokenPipeError):
            self._connection.send(data)

    def _unreachable(self, error: Exception) -> UnansweredError:
        problem = f"cannot be reached: {error or type(error).__name__}"
        return UnansweredError(self._url, problem, late=isinstance(error, TimeoutError))


def _require_success(response: http.client.HTTPResponse, content: bytes) -> None:
    if response.status == http.client.OK:
        return
    try:
        problem = decode_json(Problem, content)
    except FieldError:
        raise ServiceError(f"the service answered {response.status} {response.reason}", response.status) from None
    raise RequestRefusedError(problem, response.status)


def _window(lines: Iterator[bytes]) -> list[bytes]:
    window, size = [], 0
    while size < _WINDOW_BYTES and (line := next(lines, None)) is not None:
        window.append(line)
        size += len(line)
    return window


def _chunk(window: list[bytes]) -> bytes:
    """Return the lines as one chunk. An empty chunk ends the body."""
    data = b"".join(window)
    return b"%x\r\n%b\r\n" % (len(data), data)
