"""Problem details (RFC 9457): the format of errors."""

from typing import Final

import msgspec

from berthmaster.model.meta import Timestamp

ABOUT_BLANK: Final = "about:blank"
NOT_READY: Final = "urn:berthmaster:not-ready"
"""The type of a problem that does not depend on the request: the service does not know the present."""


class InvalidField(msgspec.Struct, frozen=True):
    """An invalid value of the request.

    Attributes:
        path: the field, as in ``binding.spec.replicas``; empty for the body itself.
    """

    path: str
    detail: str


class Progress(msgspec.Struct, frozen=True, rename="camel"):
    """How far the computation is that a request waits for.

    Attributes:
        about: what is computed.
        total: the number of its parts; 0 if it is not known yet.
        first: whether it answers another question, and this question is next.
    """

    about: str
    begun_at: Timestamp
    done: int = 0
    total: int = 0
    first: bool = False


class Problem(msgspec.Struct, frozen=True, rename="camel"):
    """Why a request failed. ``type`` is a URI for the kind of problem; ``about:blank`` if the status is enough."""

    title: str
    status: int
    detail: str
    request_id: str = ""
    errors: list[InvalidField] = []
    type: str = ABOUT_BLANK
    progress: Progress | msgspec.UnsetType = msgspec.UNSET
