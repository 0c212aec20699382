"""Options that commands of the ledger share: the database, points in time, and what a process records."""

import os
import re
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from berthmaster.ledger.times import microseconds
from berthmaster.model.errors import InputError, LedgerError, shown
from berthmaster_cli.flags import Flags, Parsed, option

if TYPE_CHECKING:
    from berthmaster.ledger.entries import Configuration
    from berthmaster.ledger.recorder import LedgerRecorder
    from berthmaster.ledger.store import Store

ENVIRONMENT: Final = "BERTHMASTER_LEDGER"
URL_HELP: Final = "sqlite:///PATH or postgresql+psycopg://USER@HOST/DATABASE"
_FILE_HELP: Final = (
    "A file with the URL, so that no command line contains the password. It is read again when a connection is made."
)
_DURATION: Final = re.compile(r"(\d{1,9})(s|m|h|d|w)")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_ACCEPTED: Final = "accepted are a duration such as 24h, and a time such as 2026-11-21T03:12 (UTC without an offset)"


def _moment(text: str) -> datetime:
    """Parse a point in time: a duration before now, or a time."""
    text = text.strip()
    if (found := _DURATION.fullmatch(text)) is not None:
        return datetime.now(UTC) - timedelta(**{_UNITS[found[2]]: int(found[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{text!r} is not a time; {_ACCEPTED}") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


MOMENT: Final = Parsed("TIME", _moment)


class LedgerFlags(Flags):
    """The ledger of a process: its URL, or a file that holds it. The text ``ledger`` says what it is for."""

    ledger_url: str | None = option(f"{{ledger}}: {URL_HELP}.", names=("--ledger",), metavar="URL")
    ledger_file: Path | None = option(_FILE_HELP)

    @property
    def ledger(self) -> str | Path | None:
        """The URL, or the file that holds it; None for none."""
        if self.ledger_url is not None and self.ledger_file is not None:
            raise click.UsageError("--ledger cannot be combined with --ledger-file")
        return self.ledger_url if self.ledger_file is None else self.ledger_file

    def checked(self) -> str | Path | None:
        """Return the ledger, which is opened later."""
        if self.ledger is not None:
            from berthmaster.ledger.store import parsed_url  # noqa: PLC0415 - SQLAlchemy is imported only for a ledger

            parsed_url(self.ledger)
        return self.ledger


class ReadLedgerFlags(LedgerFlags):
    """A ledger that others have written. Variables of the environment can name it."""

    ledger_url: str | None = option(
        f"{{ledger}}: {URL_HELP}. Default: ${ENVIRONMENT}.", names=("--ledger",), metavar="URL", envvar=ENVIRONMENT
    )
    ledger_file: Path | None = option(_FILE_HELP, envvar=f"{ENVIRONMENT}_FILE")

    def opened(self) -> "Store":
        """Open the ledger to read it."""
        from berthmaster.ledger.store import open_store  # noqa: PLC0415 - SQLAlchemy is imported only for a ledger

        if self.ledger is None:
            raise click.UsageError(f"--ledger or --ledger-file is missing; {ENVIRONMENT} can hold the URL")
        try:
            return open_store(self.ledger)
        except LedgerError as error:
            raise LedgerError(f"the ledger of --ledger or --ledger-file cannot be opened: {error}") from None


class RangeFlags(ReadLedgerFlags):
    """A ledger, and a range of times in it. The text ``records`` says of what."""

    since: datetime | None = option("Only {records} from this time on: a duration such as 7d, or a time.", type=MOMENT)
    until: datetime | None = option("Only {records} up to this time.", type=MOMENT)

    def range_us(self) -> tuple[int, int]:
        """Return the range in microseconds since 1970."""
        first = 0 if self.since is None else microseconds(self.since)
        last = 2**62 if self.until is None else microseconds(self.until)
        if last < first:
            raise InputError(f"--until {shown(str(self.until))} is before --since {shown(str(self.since))}")
        return first, last


class RecordingFlags(LedgerFlags):
    """Which records a process keeps."""

    ledger_retention_days: int = option(
        "Remove records of the ledger that are older than this, in days.", 30, click.IntRange(1, 36_500)
    )
    ledger_retention_gib: float = option(
        "Remove the oldest records while the ledger is larger than this, in GiB.",
        5.0, click.FloatRange(0, 1_000_000, min_open=True),
    )  # fmt: skip


def recorder_from(
    url: str | Path | None, role: str, configuration: "Configuration", kept: RecordingFlags | None = None
) -> "LedgerRecorder | None":
    """Return a recorder, not started; None without a ledger. Without ``kept`` it removes no records."""
    if url is None:
        return None
    from berthmaster.ledger.recorder import LedgerRecorder  # noqa: PLC0415 - the same
    from berthmaster.ledger.retention import Retention  # noqa: PLC0415 - the same
    from berthmaster.ledger.store import parsed_url  # noqa: PLC0415 - the same
    from berthmaster.runtime.clock import SystemClock  # noqa: PLC0415 - the same

    parsed_url(url)
    retention = None
    if kept is not None:
        age = timedelta(days=kept.ledger_retention_days)
        retention = Retention(age, int(kept.ledger_retention_gib * 2**30))
    writer = f"{socket.gethostname()}/{os.getpid()}"
    return LedgerRecorder(url, role, writer, configuration, SystemClock(), retention=retention)
