"""Structured logs: one JSON object a line."""

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

LEVELS: Final = ("debug", "info", "warning", "error")
_MAX_MESSAGE_LENGTH: Final = 4096
_MAX_TRACE_LENGTH: Final = 16_384


class JSONFormatter(logging.Formatter):
    """A record as a line of JSON: ``time``, ``level``, ``logger``, ``message``, and what ``fields`` adds."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:_MAX_MESSAGE_LENGTH],
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)[-_MAX_TRACE_LENGTH:]
        return msgspec.json.encode(line, enc_hook=str).decode()


def configure(level: str) -> None:
    """Send everything of a level (one of ``LEVELS``) and above to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def fields(**values: object) -> dict[str, Any]:
    """What to pass as ``extra`` to give a record fields of its own."""
    return {"fields": values}
