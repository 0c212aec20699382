"""Estimates of the cost of a request from its bytes alone, before it is decoded.

The thread that serves all connections of a process calls these functions, so they take microseconds. They count text
that each expensive part of a request must contain. An escaped character may hide such a text, and counts like it.
"""

from typing import Final

from extender.protocols.route import is_small

_PARTS: Final = (b"affinityName", b"operator", b"spreadBy", b"\\u")
"""Groups and overflow affinities, expressions, spread constraints, and characters that may spell one of them."""
_CHEAP_PARTS: Final = 16
_CHEAP_MEMBERS: Final = 512


def estimated_parts(body: bytes) -> int:
    """Return an upper bound of the parts of a request for which a decision looks at all clusters."""
    return sum(map(body.count, _PARTS))


def is_light(body: bytes) -> bool:
    """Return whether the answer to a request takes at most about 2 ms: the body is small and has few parts.

    A region search looks at all clusters several times, so a body with spread constraints is not light.
    """
    if not is_small(body) or b"spreadBy" in body:
        return False
    return estimated_parts(body) <= _CHEAP_PARTS and body.count(b":") <= _CHEAP_MEMBERS
