"""Events: what a person sees under ``kubectl describe`` (``events.k8s.io/v1``)."""

from typing import Literal, NamedTuple, Protocol


class Reference(NamedTuple):
    """What an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


class Recorder(Protocol):
    """Records events: soon, in the background, and only if nothing more important is held up by it."""

    def record(
        self,
        regarding: Reference,
        kind: Literal["Normal", "Warning"],
        reason: str,
        action: str,
        note: str,
        related: Reference | None = None,
    ) -> None:
        """Something happened.

        Args:
            regarding: to what.
            kind: whether people should worry.
            reason: why, in one CamelCase word, as ``ScheduleBindingSucceed``.
            action: what was done, in one CamelCase word, as ``Scheduling``.
            note: the whole story, for people; cut at 1,024 bytes.
            related: what else has to do with it.
        """
