"""A client that replaces itself when its access does not work any more.

Tokens and certificates expire, and a kubelet or a controller replaces their files before. Most of these files are read
only once. This client reads them again when the API server refuses its credentials, and when it cannot connect and the
files have changed: a renewed authority and a new address of the server make connections fail.
"""

import logging
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from berthmaster.kube.client import APIClient, APIResponse
from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError, InputError
from berthmaster.runtime.clock import Clock, SystemClock

_LOG: Final = logging.getLogger("berthmaster.kube")
_INTERVAL_S: Final = 10.0
"""The shortest time between two reads of the credentials. A server may refuse new ones, too."""


class UnconnectedError(ApiError):
    """There is no connection to the API server. It has received nothing of the request."""


class ReloadingClient:
    """An ``APIClient`` that replaces itself when its access does not work any more. Safe for several threads."""

    def __init__(
        self,
        load: Callable[[], APIClient],
        clock: Clock | None = None,
        state: Callable[[], object] = lambda: None,
    ) -> None:
        """Load the first client.

        Args:
            load: makes a client. It raises ``InputError`` if the present credentials are not usable.
            state: returns a value that differs after the access has changed. It raises ``InputError`` or ``OSError`` if
                the access cannot be read.
        """
        self._load = load
        self._clock = clock or SystemClock()
        self._state = state
        self._lock = threading.Lock()
        self._again_s = 0.0
        self._loaded = self._present()
        self._client = load()

    def send(self, request: APIRequest) -> APIResponse:
        """Send a request. It is sent once more, with a new client, if the API server has not processed it."""
        client = self._client
        try:
            return client.send(request)
        except UnconnectedError as error:
            if not self._has_changed(client) or not self._reload(client, str(error)):
                raise
        except ApiError as error:
            if error.status != HTTPStatus.UNAUTHORIZED:
                raise
            if not self._reload(client, "the API server refused the credentials"):
                raise
        return self._client.send(request)

    def _has_changed(self, failed: APIClient) -> bool:
        """Return whether the access has changed since the client was made that failed."""
        if self._client is not failed:
            return True
        present = self._present()
        return present is not None and present != self._loaded

    def _present(self) -> object:
        """Return the present state of the access; None if it cannot be read."""
        try:
            return self._state()
        except (InputError, OSError):
            return None

    def _reload(self, refused: APIClient, why: str) -> bool:
        """Return whether there is another client than the refused one."""
        with self._lock:
            if self._client is not refused:
                return True  # another thread has reloaded
            now_s = self._clock.monotonic_s()
            if now_s < self._again_s:
                return False
            self._again_s = now_s + _INTERVAL_S
            # Asked before the files are read: a change in between is found after the next failure.
            loaded = self._present()
            try:
                self._client = self._load()
            except InputError as error:
                _LOG.warning("%s, and the access cannot be read again: %s", why, error)
                return False
            self._loaded = loaded
            _LOG.info("%s; the access was read again", why)
            return True
