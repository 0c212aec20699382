"""Whether servers answer at their URLs, over TLS, with certificates that clients of a bundle accept."""

import http.client
import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from berthmaster.model.errors import InputError, ServiceError
from berthmaster.runtime.clock import Clock
from certs.bundle import Bundle

_TRY_LIMIT_S: Final = 5.0
_POLL_S: Final = 0.5
_HTTPS_PORT: Final = 443


class Endpoint(NamedTuple):
    """A place that is called over TLS.

    Attributes:
        host: its name or address.
        port: its port.
        path: with a leading slash.
    """

    host: str
    port: int
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}{self.path}"


def endpoint_of(url: str) -> Endpoint:
    """The place that a URL means.

    Raises:
        InputError: it is no URL of a server with TLS.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or _HTTPS_PORT
    except ValueError as error:
        raise InputError(f"{url!r} is no URL: {error}") from None
    if parts.scheme != "https" or not parts.hostname:
        raise InputError(f"{url!r} is not accepted; accepted is https://HOST[:PORT][/PATH]")
    return Endpoint(parts.hostname, port, parts.path or "/")


def wait_until_reachable(
    endpoints: Iterable[Endpoint], bundle: Callable[[], Bundle], clock: Clock, timeout_s: float
) -> None:
    """Wait until every server has answered, each tried again and again.

    Args:
        endpoints: one of a server is enough for all its paths.
        bundle: asked anew before each try, since authorities may change meanwhile.
        clock: tells the time.
        timeout_s: after this long it is an error.

    Raises:
        ServiceError: one did not answer in time; says what was wrong with the last try.
    """
    deadline_s = clock.monotonic_s() + timeout_s
    for endpoint in {(each.host, each.port): each for each in endpoints}.values():
        while problem := problem_of(endpoint, bundle()):
            if clock.monotonic_s() >= deadline_s:
                raise ServiceError(f"{endpoint} has not answered within {timeout_s:g} s: {problem}")
            time.sleep(_POLL_S)


def problem_of(endpoint: Endpoint, bundle: Bundle) -> str:
    """Why a client that trusts a bundle gets no answer; empty if it does. What is answered matters little: no 5xx."""
    if not len(bundle):
        return "there is no authority yet that could be trusted"
    context = ssl.create_default_context(cadata=bundle.pem.decode())
    try:
        with closing(
            http.client.HTTPSConnection(endpoint.host, endpoint.port, timeout=_TRY_LIMIT_S, context=context)
        ) as connection:
            connection.connect()
            return _problem_with_answer(connection, endpoint.path)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return str(error) or type(error).__name__


def _problem_with_answer(connection: http.client.HTTPSConnection, path: str) -> str:
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except ssl.SSLError:
        # Its certificate has been accepted, and it ends the session: it lets in only its clients, which show one too.
        return ""
    return f"it answers with {status}" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else ""
