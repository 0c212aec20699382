"""The extender as the pages ask it: one method for each question, answers of the native API's types."""

from collections.abc import Sequence
from typing import Protocol

from berthmaster.model.errors import ServiceError
from berthmaster.native_api.wire import (
    BindingExplanation,
    BindingView,
    Change,
    SimulateAnswer,
)


class SourceError(ServiceError):
    """The extender cannot be asked, or it refuses the question. The message is for the visitor.

    Attributes:
        status: the HTTP status of the extender's answer; 0 if there was none.
    """


class Source(Protocol):
    """Answer questions about the fleet. Safe for several threads. Every method raises ``SourceError``."""

    def binding(self, name: str, namespace: str = "") -> BindingView:
        """Return a binding; one without a namespace is cluster-scoped."""

    def decision(self, name: str, namespace: str = "") -> BindingExplanation:
        """Explain the decision on a binding, as it would be made now."""

    def simulate(self, changes: Sequence[Change]) -> SimulateAnswer:
        """Return what changes would do."""
