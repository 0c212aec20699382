"""HTTP exchanges with our own services, on urllib3. The client of API servers is in ``berthmaster.kube``."""

import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

import urllib3
from msgspec import UnsetType

from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError, InputError, ServiceError
from berthmaster.model.foreign_texts import without_urllib3_object
from berthmaster.native_api.wire import Problem
from berthmaster.runtime.traces import trace_headers

MAX_ANSWER_BYTES: Final = 256 * 2**20
_MAX_PROBLEM_BYTES: Final = 2**20
REVIEW_PATH: Final = "/v1/review"
_JSON: Final = "application/json"
_UNREACHABLE: Final = (
    urllib3.exceptions.NewConnectionError,
    urllib3.exceptions.ConnectTimeoutError,
    urllib3.exceptions.SSLError,
)
"""The errors before a request is sent."""

T = TypeVar("T")


class RequestRefusedError(ServiceError):
    """The service refused a request, and said why."""

    def __init__(self, problem: Problem, status: int) -> None:
        self.detail = problem.detail
        self.errors = problem.errors
        self.progress = None if isinstance(problem.progress, UnsetType) else problem.progress
        self.request_id = problem.request_id
        super().__init__(f"the service refused the request: {self.detail} (request {self.request_id})", status)


class UnansweredError(ServiceError):
    """The service did not answer, or its answer cannot be read.

    Attributes:
        problem: what is wrong, without the address.
        unreachable: whether the request was not sent.
    """

    def __init__(
        self, url: str, problem: str, status: int = 0, *, late: bool = False, unreachable: bool = False
    ) -> None:
        self.url = url
        self.problem = problem
        self.late = late
        self.unreachable = unreachable
        super().__init__(f"{url} {problem}", status)


class AbandonedError(ServiceError):
    """The client has given the question up before its answer."""

    def __init__(self) -> None:
        super().__init__("the question was given up")


class Answer(NamedTuple):
    """An answer: its status, the words of the status, and its body."""

    status: int
    reason: str
    content: bytes


class WebClient:
    """Persistent connections to one server. Safe for several threads."""

    def __init__(
        self,
        url: str,
        timeout_s: float,
        trust: ssl.SSLContext | None = None,
        *,
        connections: int = 1,
        pauses_s: Sequence[float] = (0.0,),
    ) -> None:
        """Prepare the client, without a request. Raises ``ValueError`` if the URL is invalid.

        Args:
            pauses_s: the pauses before a request on a broken connection is sent again.
        """
        self._url, self._pauses_s = url, pauses_s
        options = {} if trust is None else {"ssl_context": trust}
        timeout = urllib3.Timeout(connect=timeout_s, read=timeout_s)
        self._pool = urllib3.connection_from_url(url, timeout=timeout, maxsize=connections, retries=False, **options)
        self._timeout = timeout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def within(self, timeout_s: float) -> Self:
        """Return the same connections with another timeout for each part of an answer."""
        other = copy(self)
        other._timeout = urllib3.Timeout(total=timeout_s)  # noqa: SLF001 - a copy of this object
        return other

    def close(self) -> None:
        self._pool.close()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        most_bytes: int = MAX_ANSWER_BYTES,
    ) -> Answer:
        """Send a request, and return its answer, whatever its status. Redirects are not followed.

        The request is sent again if the server closed the idle connection. It must have no side effects.

        Raises:
            UnansweredError: the server cannot be reached, or sends more than ``most_bytes``.
        """
        try:
            for pause_s in self._pauses_s:
                try:
                    return self._exchanged(method, path, body, headers, most_bytes)
                except urllib3.exceptions.ProtocolError:
                    time.sleep(pause_s)
            return self._exchanged(method, path, body, headers, most_bytes)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unanswered(error) from None

    def begin(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> urllib3.response.BaseHTTPResponse:
        """Send a request, and return the response when its head is there. Close it after the last read.

        Raises:
            UnansweredError: the server cannot be reached.
        """
        try:
            return self._pool.urlopen(
                method, path, body, headers, redirect=False, preload_content=False, timeout=self._timeout
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unanswered(error) from None

    def _unanswered(self, error: Exception) -> UnansweredError:
        # In urllib3 a refused connection is a timeout, too.
        late = isinstance(error, urllib3.exceptions.TimeoutError) and not isinstance(
            error, urllib3.exceptions.NewConnectionError
        )
        unreachable = isinstance(error, _UNREACHABLE)
        cause = without_urllib3_object(str(error)) or type(error).__name__
        problem = f"{'cannot be reached' if unreachable else 'did not answer'}: {cause}"
        return UnansweredError(self._url, problem, late=late, unreachable=unreachable)

    def _exchanged(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None, most_bytes: int
    ) -> Answer:
        response = self._pool.urlopen(
            method, path, body, headers, redirect=False, preload_content=False, timeout=self._timeout
        )
        try:
            content = response.read(most_bytes + 1, decode_content=False)
            if len(content) > most_bytes:
                response.close()
                raise UnansweredError(self._url, f"sent more than {most_bytes:,} bytes", response.status)
            response.drain_conn()
            return Answer(response.status, response.reason or "", content)
        finally:
            response.release_conn()


@dataclass(frozen=True, slots=True)
class ExtenderAccess:
    """Where a service is, and how to authenticate.

    Attributes:
        url: ``http://HOST:PORT`` or ``https://HOST:PORT``.
        token_file: its first line is the bearer token, up to a comma; None for no token.
    """

    url: str
    ca_file: Path | None = None
    token_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    connections: int = 8

    def __post_init__(self) -> None:
        """Check the address. Raises ``InputError`` if it is no address of a service."""
        parts = urlsplit(self.url)
        try:
            valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            valid = False
        if not valid or parts.path not in {"", "/"} or parts.query or parts.fragment or parts.username is not None:
            raise InputError(
                f"{self.url!r} is not an address of a service; accepted is https://HOST:PORT or http://HOST:PORT"
            )

    @property
    def files(self) -> list[Path]:
        given = (self.ca_file, self.token_file, self.certificate_file, self.key_file)
        return [each for each in given if each is not None]


class ServiceConnection(WebClient):
    """Connections to one service. Requests raise a ``ServiceError`` if it refuses them or cannot be reached."""

    def __init__(
        self,
        access: ExtenderAccess,
        timeout_s: float,
        pauses_s: Sequence[float] = (0.0,),
        read: Callable[[Path], bytes] = Path.read_bytes,
    ) -> None:
        """Prepare the connections, without a request. Raises ``OSError`` or ``ValueError`` if a file is invalid."""
        self._headers = {"Accept": _JSON}
        if access.token_file is not None:
            text = read(access.token_file).decode()
            token = text.partition("\n")[0].partition(",")[0].strip()
            if not token.isascii() or not token.isprintable() or not token:
                raise ValueError(f"the first line of {access.token_file} is not a token")
            self._headers["Authorization"] = f"Bearer {token}"
        trust = None
        if urlsplit(access.url).scheme == "https":
            trust = ssl.create_default_context(cafile=access.ca_file)
            if access.certificate_file is not None:
                trust.load_cert_chain(access.certificate_file, access.key_file)
        super().__init__(access.url, timeout_s, trust, connections=access.connections, pauses_s=pauses_s)

    def request(self, method: str, path: str, answer: type[T], body: bytes | None = None) -> T:
        """Send a request, and return its answer.

        Raises:
            ServiceError: the service refuses the request, cannot be reached, or sends something else.
        """
        content = self._content(method, path, body)
        try:
            return decode_json(answer, content)
        except FieldError as error:
            raise UnansweredError(self._url, f"sent an answer that cannot be decoded: {error}", 200) from None

    def last_of(self, path: str, body: bytes, read: Callable[[bytes], T | None], given_up: Callable[[], bool]) -> T:
        """Send a request that is answered with lines, and return what ``read`` finds in one of them.

        The connection is closed when the question ``given_up`` is, or takes longer than the timeout. The service then
        ends its work.

        Raises:
            AbandonedError: the question was given up.
            ServiceError: the service refuses the request or cannot be reached; the errors of ``read``.
        """
        begun_s, limit_s = time.monotonic(), self._timeout.read_timeout
        headers = {**self._headers, **trace_headers(), "Content-Type": _JSON}
        response = self.begin("POST", path, body, headers)
        try:
            if response.status != HTTPStatus.OK:
                raise _refused(Answer(response.status, response.reason or "", response.read(_MAX_PROBLEM_BYTES)))
            for line in self._lines(response):
                if line.strip() and (found := read(line)) is not None:
                    return found
                if given_up():
                    raise AbandonedError
                if isinstance(limit_s, int | float) and time.monotonic() - begun_s > limit_s:
                    raise UnansweredError(self._url, "did not answer in time", late=True)
            raise UnansweredError(self._url, "ended its answer before the last line")
        finally:
            response.close()

    def _lines(self, response: urllib3.response.BaseHTTPResponse) -> Iterator[bytes]:
        """Yield the lines of a body as they arrive, of bounded size."""
        rest = b""
        try:
            for piece in response.stream(decode_content=False):
                *lines, rest = (rest + piece).split(b"\n")
                yield from lines
                if len(rest) > MAX_ANSWER_BYTES:
                    raise UnansweredError(self._url, f"sent more than {MAX_ANSWER_BYTES:,} bytes", response.status)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unanswered(error) from None
        yield rest

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        most_bytes: int = MAX_ANSWER_BYTES,
    ) -> Answer:
        given = {**self._headers, **trace_headers(), **(headers or {})}
        if body is not None:
            given.setdefault("Content-Type", _JSON)
        return super().ask(method, path, body, given, most_bytes)

    def _content(self, method: str, path: str, body: bytes | None) -> bytes:
        answer = self.ask(method, path, body)
        if answer.status == HTTPStatus.OK:
            return answer.content
        raise _refused(answer)


def _refused(answer: Answer) -> ServiceError:
    try:
        problem = decode_json(Problem, answer.content)
    except FieldError:
        return ServiceError(f"the service answered {answer.status} {answer.reason}", answer.status)
    return RequestRefusedError(problem, answer.status)
