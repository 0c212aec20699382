"""What the doctor says: the result of each check."""

from enum import StrEnum
from functools import partial
from typing import Final

import msgspec


class Severity(StrEnum):
    """How bad a finding is, the worst first."""

    FAILED = "failed"  # it does not work, or will stop working
    WARNING = "warning"  # it works, but a person should look at it
    SKIPPED = "skipped"  # it could not be checked
    OK = "ok"  # no problem was found


class Finding(msgspec.Struct, frozen=True, kw_only=True, rename={"severity": "verdict"}):
    """The result of one check. The remedy is in the imperative, with a command; empty if nothing is wrong."""

    check: str  # GROUP/NAME, the same in every release
    severity: Severity
    message: str
    remedy: str = ""

    @property
    def group(self) -> str:
        return self.check.partition("/")[0]


def _finding(severity: Severity, check: str, message: str, remedy: str = "") -> Finding:
    return Finding(check=check, severity=severity, message=message, remedy=remedy)


ok: Final = partial(_finding, Severity.OK)
warning: Final = partial(_finding, Severity.WARNING)
failed: Final = partial(_finding, Severity.FAILED)
skipped: Final = partial(_finding, Severity.SKIPPED)
