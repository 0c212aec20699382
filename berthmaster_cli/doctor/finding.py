"""What the doctor says about one thing."""

from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """How something is, the worst first.

    Attributes:
        FAILED: it does not work, or will not.
        WARNING: it works, and a person should look at it.
        SKIPPED: it could not be seen.
        OK: it is as it should be.
    """

    FAILED = "failed"
    WARNING = "warning"
    SKIPPED = "skipped"
    OK = "ok"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding.

    Attributes:
        check: what was looked at, ``GROUP/NAME``; the same in every release.
        verdict: how it is.
        told: what was seen, a sentence.
        remedy: what to do, one sentence in the imperative, with the command where there is one; empty if all is well.
    """

    check: str
    verdict: Verdict
    told: str
    remedy: str = ""

    @property
    def group(self) -> str:
        """The part of the set-up."""
        return self.check.partition("/")[0]

    @property
    def name(self) -> str:
        """What of that part."""
        return self.check.partition("/")[2]


def ok(check: str, told: str) -> Finding:
    """It is as it should be."""
    return Finding(check=check, verdict=Verdict.OK, told=told)


def warning(check: str, told: str, remedy: str) -> Finding:
    """A person should look at it."""
    return Finding(check=check, verdict=Verdict.WARNING, told=told, remedy=remedy)


def failed(check: str, told: str, remedy: str) -> Finding:
    """It does not work."""
    return Finding(check=check, verdict=Verdict.FAILED, told=told, remedy=remedy)


def skipped(check: str, told: str, remedy: str = "") -> Finding:
    """It could not be seen."""
    return Finding(check=check, verdict=Verdict.SKIPPED, told=told, remedy=remedy)
