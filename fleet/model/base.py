"""What all decoded values have in common."""

from datetime import datetime
from typing import Annotated, Final

import msgspec

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=INT32_MAX)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=INT64_MAX)]
Count = Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]
"""A number of replicas or pods: an int32 that is not negative."""

Timestamp = Annotated[datetime, msgspec.Meta(tz=True)]
"""An RFC 3339 time with its offset, as the API server writes it."""


class Value(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A decoded object of an API: immutable, camelCase outside, absent fields at their default."""
