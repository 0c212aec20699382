"""Requests to the extender over persistent connections, with credentials that are read again when they change."""

import ssl
import time
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import urllib3

from berthmaster.native_api.access import REVIEW_PATH, ExtenderAccess
from berthmaster.runtime import traces
from berthmaster.serving.reloaded_files import ReloadedFiles, read_regular_file

MAX_ANSWER_BYTES: Final = 256 * 2**10
_CHECK_S: Final = 1.0
_PAUSES_S: Final = (0.0, 0.05, 0.1)
"""The pauses before a broken connection is tried again. A process that ends refuses connections by then."""
_JSON: Final = "application/json"


class ExtenderAnswer(NamedTuple):
    """The answer to a request: its HTTP status and body."""

    status: int
    content: bytes


class UnreachableError(Exception):
    """The extender could not be asked. The message says why."""


class NoReviewError(Exception):
    """The extender was asked, and did not answer. The message says why."""


_UNREACHABLE: Final = (
    urllib3.exceptions.NewConnectionError,
    urllib3.exceptions.ConnectTimeoutError,
    urllib3.exceptions.SSLError,
    urllib3.exceptions.LocationParseError,
)
"""The errors before a request is sent."""


class ExtenderClient:
    """Sends requests. Safe for several threads.

    Files that are missing at the start or become unusable are no reason to stop: only requests fail meanwhile. If new
    files cannot be used, the last valid ones stay in use.
    """

    def __init__(self, access: ExtenderAccess, on_failure: Callable[[Exception], None]) -> None:
        self._access = access
        self._on_failure = on_failure
        self._url = f"{access.url.rstrip('/')}{REVIEW_PATH}"
        self._files: ReloadedFiles[_Session] | None = None

    def post(self, body: bytes, timeout_s: float) -> ExtenderAnswer:
        """Send a request for a review. Takes longer than ``timeout_s`` at worst: the caller must not wait for it."""
        with traces.inner_span("ask the extender"):
            return self._post(body, timeout_s)

    def _post(self, body: bytes, timeout_s: float) -> ExtenderAnswer:
        session = self._session()
        for pause_s in _PAUSES_S:
            try:
                return self._sent(session, body, timeout_s)
            except urllib3.exceptions.ProtocolError:
                # The extender closed an idle connection, or is ending. A review has no side effects.
                time.sleep(pause_s)
            except urllib3.exceptions.HTTPError as error:
                raise _mapped(error) from None
        try:
            return self._sent(session, body, timeout_s)
        except urllib3.exceptions.HTTPError as error:
            raise _mapped(error) from None

    def _sent(self, session: "_Session", body: bytes, timeout_s: float) -> ExtenderAnswer:
        response = session.pool.request(
            "POST",
            self._url,
            body=body,
            headers={**session.headers, **traces.headers()},
            timeout=urllib3.Timeout(total=timeout_s),
            preload_content=False,
            redirect=False,
            retries=False,
        )
        try:
            content = response.read(MAX_ANSWER_BYTES + 1, decode_content=False)
            if len(content) > MAX_ANSWER_BYTES:
                response.close()
                raise NoReviewError(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
            response.drain_conn()
            return ExtenderAnswer(response.status, content)
        finally:
            response.release_conn()

    def _session(self) -> "_Session":
        if self._files is None:
            try:
                self._files = ReloadedFiles(self._access.files, self._load, self._on_failure, check_interval_s=_CHECK_S)
            except (OSError, ValueError) as error:
                raise UnreachableError(f"its credentials cannot be used: {error}") from None
        return self._files.content()

    def _load(self) -> "_Session":
        access = self._access
        headers = {"Content-Type": _JSON, "Accept": _JSON}
        if access.token_file is not None:
            text = read_regular_file(access.token_file).decode()
            token = text.partition("\n")[0].partition(",")[0].strip()
            if not token.isascii() or not token.isprintable() or not token:
                raise ValueError(f"the first line of {access.token_file} is not a token")
            headers["Authorization"] = f"Bearer {token}"
        context = None
        if urlsplit(access.url).scheme == "https":
            context = ssl.create_default_context(cafile=access.ca_file)
            if access.certificate_file is not None:
                context.load_cert_chain(access.certificate_file, access.key_file)
        pool = urllib3.PoolManager(num_pools=1, maxsize=access.connections, block=False, ssl_context=context)
        return _Session(pool, headers)


class _Session(NamedTuple):
    pool: urllib3.PoolManager
    headers: dict[str, str]


def _mapped(error: urllib3.exceptions.HTTPError) -> UnreachableError | NoReviewError:
    return UnreachableError(_reason(error)) if isinstance(error, _UNREACHABLE) else NoReviewError(_reason(error))


def _reason(error: urllib3.exceptions.HTTPError) -> str:
    """Return the cause without the addresses of objects, which urllib3 adds."""
    text = str(error)
    return text.rpartition(">: ")[2] or text or type(error).__name__
