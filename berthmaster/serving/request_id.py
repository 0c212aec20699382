"""The id of a request: in its response, and in the records about it."""

import re
import uuid
from collections.abc import Mapping
from typing import Any, Final

_SANE_ID: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


def request_id_of(environ: Mapping[str, Any]) -> str:
    """Return the client's ``X-Request-Id`` if it is safe to repeat, or a new id."""
    given: str = environ.get("HTTP_X_REQUEST_ID", "")
    return given if _SANE_ID.fullmatch(given) else uuid.uuid4().hex
