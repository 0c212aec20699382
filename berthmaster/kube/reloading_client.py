"""A client that reads its credentials again when the API server refuses them.

Tokens and client certificates expire, and a kubelet or a controller replaces their files before. The official client
reads most of these files only once.
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


class ReloadingClient:
    """An ``APIClient`` that replaces itself when its credentials are refused. Safe for several threads."""

    def __init__(self, load: Callable[[], APIClient], clock: Clock | None = None) -> None:
        """Load the first client.

        Args:
            load: makes a client with the present credentials. Raises ``InputError`` if they are not usable.
            clock: the time.

        Raises:
            InputError: the credentials are not usable.
        """
        self._load = load
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._again_s = 0.0
        self._client = load()

    def send(self, request: APIRequest) -> APIResponse:
        """Send a request. The API server has not processed a request with status 401, so it is sent once more."""
        client = self._client
        try:
            return client.send(request)
        except ApiError as error:
            if error.status != HTTPStatus.UNAUTHORIZED or not self._reload(client):
                raise
        return self._client.send(request)

    def _reload(self, refused: APIClient) -> bool:
        """Return whether there is another client than the refused one."""
        with self._lock:
            if self._client is not refused:
                return True  # another thread has reloaded
            now_s = self._clock.monotonic_s()
            if now_s < self._again_s:
                return False
            self._again_s = now_s + _INTERVAL_S
            try:
                self._client = self._load()
            except InputError as error:
                _LOG.warning("the API server refused the credentials, and they cannot be read again: %s", error)
                return False
            _LOG.info("the API server refused the credentials; they were read again")
            return True
