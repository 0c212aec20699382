"""Requests to the extender over persistent connections, with credentials that are read again when they change."""

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
import urllib3

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.native_api.connection import REVIEW_PATH, ExtenderAccess
from berthmaster.native_api.wire import NOT_READY
from berthmaster.runtime.logs import inner_span, trace_headers
from berthmaster.serving.reloaded_files import ReloadedFiles, read_regular_file
from webhook.admission.impact import BlastRadius, PolicyImpact, ReviewedChange, line

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
        with inner_span("ask the extender"):
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
            headers={**session.headers, **trace_headers()},
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


_MAX_GAPS: Final = 3
_MAX_WORST: Final = 3
_Failure = Literal["", "nowhere", "short"]
_EFFECTS: Final[dict[_Failure, str]] = {"nowhere": "would have no place", "short": "would lack replicas"}


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """The base of the parts. Unknown fields are ignored: a newer extender has more."""


class _Workload(_Part, frozen=True):
    resource: str
    failure: _Failure = ""
    message: str = ""
    leaves: list[str] = []
    reaches: dict[str, int] = {}
    changes: dict[str, tuple[int, int]] = {}
    more_left: int = 0
    more_reached: int = 0
    more_changed: int = 0


class _Answer(_Part, frozen=True):
    id: str
    complete: bool
    workloads: int
    concerned: int
    moved: int
    replicas: int
    lost: int
    short: int
    deleted_copies: int
    worst: list[_Workload] = []
    assumes_preemption: bool = False
    gaps: list[str] = []
    planning: bool = False


class _Problem(_Part, frozen=True):
    detail: str
    type: str = ""


def review_request(change: ReviewedChange, limits: BlastRadius | None, timeout_s: float) -> bytes:
    """Return the body of the request. The extender stops computing when the time is over."""
    body: dict[str, Any] = {"timeoutMs": max(1, round(timeout_s * 1000)), "dryRun": change.dry_run}
    if change.document is None:
        name = {"kind": change.kind, "namespace": change.namespace, "name": change.name}
        body["change"] = {"type": "delete", "policy": name}
    else:
        body["change"] = {"type": "set", "policy": _reduced(change, change.document), "creates": change.creates}
    if limits is not None:
        body |= {"limits": limits.by_name(), "accepts": change.accepts}
    return encode_json(body)


def impact_of(content: bytes) -> PolicyImpact:
    """Return the impact that an answer describes. Raises ``FieldError`` if the answer cannot be decoded."""
    answer = decode_json(_Answer, content)
    return PolicyImpact(
        plan=answer.id,
        workloads=answer.workloads,
        concerned=answer.concerned,
        moved=answer.moved,
        replicas=answer.replicas,
        lost=answer.lost,
        short=answer.short,
        deleted=answer.deleted_copies,
        complete=answer.complete,
        worst=tuple(line(text) for each in answer.worst for text in _texts(each))[:_MAX_WORST],
        gaps=tuple(answer.gaps[:_MAX_GAPS]),
        planning=answer.planning,
        assumes_preemption=answer.assumes_preemption,
    )


def problem_of(content: bytes) -> tuple[str, bool]:
    """Return the detail of a problem, and whether the extender does not know the present.

    Raises:
        FieldError: the content is no problem.
    """
    found = decode_json(_Problem, content)
    return found.detail, found.type == NOT_READY


def _reduced(change: ReviewedChange, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy without the metadata that no decision reads."""
    metadata = {"name": change.name, "namespace": change.namespace}
    return {
        "apiVersion": document.get("apiVersion"),
        "kind": change.kind,
        "metadata": metadata,
        "spec": document.get("spec"),
    }


def _texts(workload: _Workload) -> Iterator[str]:
    if workload.failure:
        effect = f"{workload.resource} {_EFFECTS[workload.failure]}"
        yield f"{effect}: {workload.message}" if workload.message else effect
    parts = (
        ("leaves", workload.leaves, workload.more_left),
        ("reaches", [_with_replicas(*each) for each in workload.reaches.items()], workload.more_reached),
        ("changes", [f"{name} {a}->{b}" for name, (a, b) in workload.changes.items()], workload.more_changed),
    )
    moves = ", ".join(f"{verb} {_few(names, more)}" for verb, names, more in parts if names)
    if moves and not workload.failure:
        yield f"{workload.resource} {moves}"


def _with_replicas(name: str, replicas: int) -> str:
    return f"{name} ({replicas})" if replicas else name


def _few(names: list[str], more: int) -> str:
    return f"{', '.join(names)} and {more} more" if more else " and ".join(names)
