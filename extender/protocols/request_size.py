"""The size of a request: how many bytes and JSON values it may have, before it is decoded."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from extender.protocols.problem import Refusal
from extender.protocols.services import Call, Services

MAX_VALUES: Final = 600_000
"""The most JSON values of a request that brings a fleet."""
MAX_QUESTION_VALUES: Final = 200_000
"""The most JSON values of a request that uses the fleet of the service."""
MAX_QUESTION_BYTES: Final = 3 * 2**20
_LARGE_VALUES: Final = 50_000
"""From this number on, a process answers one request at a time."""


def values_of(body: bytes) -> int:
    """Return about how many values a JSON document has; never fewer. Characters in strings count too."""
    return 1 + body.count(b",") + body.count(b"{") + body.count(b"[")


@contextmanager
def sized(
    services: Services, call: Call, body: bytes, *, brings_fleet: bool, decodes_parts: bool = False
) -> Iterator[None]:
    """Check the size of a request before it is decoded. During the context, no other large request is answered."""
    most_bytes = services.limits.body_bytes if brings_fleet else MAX_QUESTION_BYTES
    most_values = MAX_VALUES if brings_fleet else MAX_QUESTION_VALUES
    if len(body) > most_bytes:
        raise Refusal(413, f"the request has {len(body)} bytes; at most {most_bytes} are read")
    values = values_of(body)
    if values > most_values and not decodes_parts:
        raise Refusal(413, f"the request has about {values:,} JSON values; at most {most_values:,} are read")
    if values < _LARGE_VALUES:
        yield
        return
    with services.one_at_a_time(services.large, call, "other large requests"):
        yield
