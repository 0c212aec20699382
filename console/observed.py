"""The metrics of the console as a protocol."""

from typing import Protocol

from console.live import LiveMetrics


class ConsoleMetrics(LiveMetrics, Protocol):
    """The metrics of the console. Every label comes from a small fixed set, and never from the text of a client."""

    def answered(self, page: str, status: int, seconds: float) -> None:
        """Count a request and its duration. ``page`` is empty for an unknown path."""

    def signed_in(self, result: str) -> None:
        """Count an attempt to sign in: ``accepted``, ``refused`` or ``limited``."""

    def source_failed(self, status: int) -> None:
        """Count a question that the extender did not answer, by the status of its answer; 0 if there was none."""
