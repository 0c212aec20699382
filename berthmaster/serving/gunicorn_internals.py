"""The internals of gunicorn that this package uses. No other module imports them.

gunicorn documents its settings, hooks, custom applications and custom workers (``Worker``). The names below are not
documented, so a new version may change them. ``tests/unit/serving/test_worker_state.py`` fails when a name, a
signature or an attribute in use has changed.

1. ``ParseException``: a malformed trailer of a chunked body of the worker class ``gthread``.
2. ``Arbiter``: fail readiness before a stop, and block signals around a fork.
"""

from gunicorn.arbiter import Arbiter
from gunicorn.http.errors import ParseException

__all__ = ["Arbiter", "ParseException"]
