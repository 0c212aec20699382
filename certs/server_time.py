"""The time by the clock of an API server, so that replicas on machines with different clocks mean the same by "now"."""

from datetime import datetime, timedelta
from typing import Final

import msgspec

from berthmaster.kube import requests
from berthmaster.kube.client import APIClient, ask
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, FieldError
from berthmaster.runtime.clock import Clock
from certs.secrets import SECRETS

_NOTICED: Final = timedelta(seconds=2)
"""Differences below this come of the way there and back, and of the whole seconds in which a server tells the time."""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    creation_timestamp: datetime


class _Created(msgspec.Struct, frozen=True):
    metadata: _Metadata


class ServerTime:
    """The local clock, put right by what an API server says.

    A clock that is wrong by years would otherwise find all certificates expired, or not yet valid, and replace them
    with ones that are useless to everybody else.

    Attributes:
        ahead: how far the local clock is ahead of the server's; zero if they agree, or the server did not say.
    """

    def __init__(self, client: APIClient, namespace: str, clock: Clock) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self.ahead = timedelta(0)

    def now(self) -> datetime:
        """The present, as the server has it."""
        return self._clock.now() - self.ahead

    def adjust(self) -> None:
        """Ask the server for the time: by a Secret that is made on trial only, and says when.

        Without the right to make Secrets the local clock has to do; whoever may not write does no harm by it.
        """
        trial = {"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "berthmaster-time-"}}
        request = requests.create(SECRETS, self._namespace, trial)
        try:
            answer = ask(self._client, request._replace(query=(("dryRun", "All"),)))
            told = decode_json(_Created, answer).metadata.creation_timestamp
        except (ApiError, FieldError):
            return
        ahead = self._clock.now() - told
        self.ahead = ahead if abs(ahead) > _NOTICED else timedelta(0)
