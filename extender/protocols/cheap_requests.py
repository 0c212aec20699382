"""Which requests are cheap: the thread that reads them answers them at once."""

from collections.abc import Callable
from typing import Final

Cheap = Callable[[bytes], bool]
_SMALL_BYTES: Final = 16 * 2**10
_PARTS: Final = (b"affinityName", b"operator", b"spreadBy", b"\\u")
"""Groups, overflow affinities, expressions, spread constraints, and characters that may spell one of them."""
_CHEAP_PARTS: Final = 16
_CHEAP_MEMBERS: Final = 512


def never_cheap(_body: bytes) -> bool:
    """Say that the answer to a request takes long, whatever its body is."""
    return False


def is_light(body: bytes) -> bool:
    """Return whether the answer to a request takes at most about 2 ms: the body is small and has few parts.

    A region search looks at all clusters several times, so a body with spread constraints is not light.
    """
    if len(body) > _SMALL_BYTES or b"spreadBy" in body:
        return False
    return sum(map(body.count, _PARTS)) <= _CHEAP_PARTS and body.count(b":") <= _CHEAP_MEMBERS
