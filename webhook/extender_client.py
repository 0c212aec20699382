"""Sends requests for reviews to the extender, on connections that stay open."""

from collections.abc import Callable
from typing import Final, Protocol

from berthmaster.native_api.connection import REVIEW_PATH, Answer, ExtenderAccess, ServiceConnection, UnansweredError
from berthmaster.runtime.traces import inner_span
from berthmaster.serving.reloaded_files import ReloadedFiles, read_regular_file

MAX_ANSWER_BYTES: Final = 256 * 2**10
_CHECK_S: Final = 1.0
_PAUSES_S: Final = (0.0, 0.05, 0.1)
"""The pauses before a broken connection is tried again. A process that ends refuses connections by then."""
LATE_S: Final = 0.1
"""The time that a request may take longer than its review waits."""


class ReviewClient(Protocol):
    """Sends a request for a review to the extender."""

    def post(self, body: bytes, timeout_s: float) -> Answer:
        """Return the answer. May take longer than ``timeout_s``. Raises ``UnansweredError`` if there is none."""


class ExtenderClient:
    """Sends requests for reviews, on connections that stay open. Safe for several threads.

    Files that are missing at the start or become unusable are no reason to stop: only requests fail meanwhile. If new
    files cannot be used, the last valid ones stay in use.
    """

    def __init__(self, access: ExtenderAccess, on_failure: Callable[[Exception], None]) -> None:
        self._access = access
        self._on_failure = on_failure
        self._files: ReloadedFiles[ServiceConnection] | None = None

    def post(self, body: bytes, timeout_s: float) -> Answer:
        """Send a request for a review. Takes longer than ``timeout_s`` at worst: the caller must not wait for it."""
        with inner_span("ask the extender"):
            connection = self._connection().within(timeout_s)
            return connection.ask("POST", REVIEW_PATH, body, most_bytes=MAX_ANSWER_BYTES)

    def _connection(self) -> ServiceConnection:
        if self._files is None:
            try:
                self._files = ReloadedFiles(self._access.files, self._load, self._on_failure, check_interval_s=_CHECK_S)
            except (OSError, ValueError) as error:
                problem = f"cannot be reached: its credentials cannot be used: {error}"
                raise UnansweredError(self._access.url, problem, unreachable=True) from None
        return self._files.content()

    def _load(self) -> ServiceConnection:
        return ServiceConnection(self._access, LATE_S, _PAUSES_S, read_regular_file)
