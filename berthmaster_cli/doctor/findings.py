"""What the doctor says: the result of each check."""

from enum import StrEnum
from functools import partial
from typing import Final

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


def _finding(severity: Severity, check: str, message: str, remedy: str = "") -> Finding:
    return Finding(check=check, severity=severity, message=message, remedy=remedy)


ok: Final = partial(_finding, Severity.OK)
warning: Final = partial(_finding, Severity.WARNING)
failed: Final = partial(_finding, Severity.FAILED)
skipped: Final = partial(_finding, Severity.SKIPPED)
