"""Problem details (RFC 9457): the format of errors."""

from typing import Final

import msgspec

ABOUT_BLANK: Final = "about:blank"
"""The type of a problem that the status describes."""
NOT_READY: Final = "urn:berthmaster:not-ready"
"""The type of a problem that does not depend on the request: the service does not know the present."""


class InvalidField(msgspec.Struct, frozen=True):
    """An invalid value of the request.

    Attributes:
        path: the field, as in ``binding.spec.replicas``; empty for the body itself.
    """

    path: str
    detail: str


class Problem(msgspec.Struct, frozen=True, rename="camel"):
    """Why a request failed. ``type`` is a URI for the kind of problem; ``about:blank`` if the status is enough."""

    title: str
    status: int
    detail: str
    request_id: str = ""
    errors: list[InvalidField] = []
    type: str = ABOUT_BLANK
