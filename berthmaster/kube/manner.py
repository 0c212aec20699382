"""How a person wants requests to be sent: as another user, within a time, and reported."""

import time
from collections.abc import Callable
from typing import NamedTuple

from berthmaster.kube.client import APIClient, APIResponse
from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError


class RequestManner(NamedTuple):
    """How requests are sent.

    Attributes:
        user, groups: whom the API server takes the sender for (impersonation); empty for the sender itself.
        timeout_s: how long a server may send nothing, at most; 0 for the limit of each request.
        report: called with one line about each request: what was asked, the result and the time. None for no reports.
    """

    user: str = ""
    groups: tuple[str, ...] = ()
    timeout_s: float = 0.0
    report: Callable[[str], None] | None = None


class ManneredClient:
    """An ``APIClient`` that sends requests in a manner."""

    def __init__(self, client: APIClient, manner: RequestManner) -> None:
        self._client, self._manner = client, manner

    def send(self, request: APIRequest) -> APIResponse:
        manner = self._manner
        impersonated = (("Impersonate-User", manner.user), *(("Impersonate-Group", each) for each in manner.groups))
        sent = request._replace(
            headers=(*request.headers, *impersonated) if manner.user else request.headers,
            read_timeout_s=min(request.read_timeout_s, manner.timeout_s or request.read_timeout_s),
        )
        if manner.report is None:
            return self._client.send(sent)
        query = "&".join(f"{name}={value}" for name, value in request.query)
        what = f"{request.method} {request.path}{f'?{query}' if query else ''}"
        since_s, outcome = time.monotonic(), "200"
        try:
            return self._client.send(sent)
        except ApiError as error:
            outcome = str(error.status or "no response")
            raise
        finally:
            manner.report(f"{what} {outcome} in {1000 * (time.monotonic() - since_s):.0f} ms")
