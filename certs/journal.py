"""What is told of each action: a line of the log, an event where a person would look, a count."""

import logging
from typing import Final, Protocol

from berthmaster.kube.events import Recorder
from berthmaster.model.errors import ApiError
from berthmaster.runtime.logs import fields
from certs.steps import Step

_LOG: Final = logging.getLogger("berthmaster.certs")
_ACTION: Final = "KeepCertificates"


class Counts(Protocol):
    """Counts actions."""

    def count(self, reason: str, outcome: str) -> None:
        """One more, with its reason; the outcome is ``done``, ``overtaken`` or ``failed``."""


class Journal:
    """Tells of every action with its reason. Keys are never among it."""

    def __init__(self, on_host: Recorder, on_target: Recorder, counts: Counts) -> None:
        """A journal.

        Args:
            on_host: records events about Secrets.
            on_target: records events about configurations.
            counts: counts actions.
        """
        self._on_host = on_host
        self._on_target = on_target
        self._counts = counts

    def done(self, step: Step) -> None:
        """It was written."""
        _LOG.info("%s %s is written: %s", step.about.kind, step.about.name, step.finding, extra=_fields(step))
        self._counts.count(step.finding.reason, "done")
        self._record(step, "Normal", step.finding.message)

    def overtaken(self, step: Step) -> None:
        """Somebody else wrote it meanwhile."""
        _LOG.info("%s %s was written by somebody else meanwhile", step.about.kind, step.about.name, extra=_fields(step))
        self._counts.count(step.finding.reason, "overtaken")

    def failed(self, step: Step, error: ApiError) -> None:
        """It could not be written."""
        _LOG.error("%s %s is not written: %s", step.about.kind, step.about.name, error, extra=_fields(step))
        self._counts.count(step.finding.reason, "failed")
        self._record(step, "Warning", f"{step.finding.message}; it could not be written: {error}")

    def _record(self, step: Step, kind: str, note: str) -> None:
        recorder = self._on_target if step.on_target else self._on_host
        recorder.record(step.about, "Normal" if kind == "Normal" else "Warning", step.finding.reason, _ACTION, note)


def _fields(step: Step) -> dict[str, object]:
    about = step.about
    return fields(reason=step.finding.reason, kind=about.kind, namespace=about.namespace, name=about.name)
