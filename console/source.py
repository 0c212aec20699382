"""The errors of the extender as the pages ask it, and the reader of its answers."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from berthmaster.model.errors import ServiceError
from berthmaster.native_api.wire import InvalidField, Progress


class SourceError(ServiceError):
    """The extender cannot be asked, or it refuses the question. The message is for the visitor.

    Attributes:
        status: the HTTP status of the extender's answer; 0 if there was none.
        unanswered: whether the extender gave no answer of its own, so that an earlier answer is the best one.
    """

    def __init__(
        self,
        message: str,
        status: int = 0,
        detail: str = "",
        errors: Sequence[InvalidField] = (),
        *,
        unanswered: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self.detail = detail
        self.errors = errors
        self.unanswered = unanswered
        self.progress = progress
        super().__init__(message, status)


class HistoryQuery(NamedTuple):
    """Which records to list; the fields are the arguments of ``Client.history``."""

    namespace: str = ""
    kind: str = ""
    name: str = ""
    cluster: str = ""
    policy: str = ""
    since: datetime | None = None
    until: datetime | None = None
    moves: bool = False
    after: str = ""
    limit: int = 50


Namespaces = frozenset[str] | None
