"""One result of a check."""

from enum import StrEnum

import msgspec


class Severity(StrEnum):
    """How bad a finding is, the worst first.

    Attributes:
        FAILED: it does not work, or will stop working.
        WARNING: it works, but a person should look at it.
        SKIPPED: it could not be checked.
        OK: no problem was found.
    """

    FAILED = "failed"
    WARNING = "warning"
    SKIPPED = "skipped"
    OK = "ok"


class Finding(msgspec.Struct, frozen=True, kw_only=True, rename={"severity": "verdict"}):
    """The result of one check.

    Attributes:
        check: ``GROUP/NAME``, the same in every release.
        severity: how bad it is; ``verdict`` in JSON.
        remedy: what to do, in the imperative, with the command if there is one. Empty if nothing is wrong.
    """

    check: str
    severity: Severity
    message: str
    remedy: str = ""

    @property
    def group(self) -> str:
        return self.check.partition("/")[0]

    @property
    def name(self) -> str:
        return self.check.partition("/")[2]


def ok(check: str, message: str) -> Finding:
    """Return a finding that all is well."""
    return Finding(check=check, severity=Severity.OK, message=message)


def warning(check: str, message: str, remedy: str) -> Finding:
    """Return a finding that a person should look at."""
    return Finding(check=check, severity=Severity.WARNING, message=message, remedy=remedy)


def failed(check: str, message: str, remedy: str) -> Finding:
    """Return a finding that something does not work."""
    return Finding(check=check, severity=Severity.FAILED, message=message, remedy=remedy)


def skipped(check: str, message: str, remedy: str = "") -> Finding:
    """Return a finding that something could not be checked."""
    return Finding(check=check, severity=Severity.SKIPPED, message=message, remedy=remedy)
