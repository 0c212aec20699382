"""A note: a fact beside the decisions that the ledger records, such as a preemption or a refusal."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec

NoteKind = Literal[
    "start",
    "stop",
    "gap",
    "retention",
    "preemption",
    "refusal",
    "priority-drop",
    "plan-accepted",
    "exemption",
    "move",
]


class Note(msgspec.Struct, frozen=True, array_like=True):
    """A fact that the ledger records."""

    kind: NoteKind
    message: str
    namespace: str = ""
    name: str = ""
    resource_kind: str = ""
    policy: str = ""
    clusters: tuple[str, ...] = ()
    details: Mapping[str, Any] = {}


class NoteRecorder(Protocol):
    """Records notes. Its method never blocks and never raises. Any thread may call it."""

    def noted(self, note: Note) -> None:
        """Record a fact."""
