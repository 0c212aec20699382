"""Options that commands of the ledger share: the database, points in time, and what a process records."""

import os
import re
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from berthmaster.model.errors import InputError, LedgerError, shown
from berthmaster.runtime.installation import extra_remedy
from berthmaster.version import __version__
from berthmaster_cli.options import FILE, Decorator, option_group

if TYPE_CHECKING:
    from berthmaster.ledger.entries import Configuration
    from berthmaster.ledger.recorder import LedgerRecorder
    from berthmaster.ledger.store import Store
    from berthmaster.runtime.feature_gates import FeatureGates
    from berthmaster.scheduling.profile import Profile

ENVIRONMENT: Final = "BERTHMASTER_LEDGER"
URL_HELP: Final = "sqlite:///PATH or postgresql+psycopg://USER@HOST/DATABASE"
_DURATION: Final = re.compile(r"(\d{1,9})(s|m|h|d|w)")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_MICROSECONDS: Final = 1_000_000
_ACCEPTED: Final = "accepted are a duration such as 24h, and a time such as 2026-11-21T03:12 (UTC without an offset)"


class Moment(click.ParamType[datetime]):
    """A point in time: a duration before now, or a time."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:  # noqa: ANN401
        if isinstance(value, datetime):
            return value
        text = str(value).strip()
        if (found := _DURATION.fullmatch(text)) is not None:
            return datetime.now(UTC) - timedelta(**{_UNITS[found[2]]: int(found[1])})
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is not a time; {_ACCEPTED}", param, ctx)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


MOMENT: Final = Moment()


def ledger_options(help_text: str, *, environment: str | None = None, required: bool = False) -> Decorator:
    """Return the options that name a ledger: its URL, or a file that holds the URL. Both set ``ledger_url``.

    Args:
        help_text: what the ledger is used for.
        environment: the environment variable with the URL; None for that of the command.
        required: whether one of them must be given.
    """

    def merged(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def command(*arguments: Any, **given: Any) -> Any:  # noqa: ANN401 - click's
            url, path = given["ledger_url"], given.pop("ledger_file")
            if url is not None and path is not None:
                raise click.UsageError("--ledger cannot be combined with --ledger-file")
            if required and url is None and path is None:
                raise click.UsageError(f"--ledger or --ledger-file is missing; {environment} can hold the URL")
            return function(*arguments, **{**given, "ledger_url": url if path is None else path})

        return command

    return option_group(
        click.option(
            "--ledger", "ledger_url", envvar=environment, metavar="URL",
            help=f"{help_text}: {URL_HELP}.{f' Default: ${environment}.' if environment else ''}",
        ),
        click.option(
            "--ledger-file", envvar=None if environment is None else f"{environment}_FILE", type=FILE,
            help="A file with the URL, so that no command line contains the password. It is read again when a "
            "connection is made.",
        ),
        merged,
    )  # fmt: skip


ledger_option: Final = ledger_options("The ledger to read", environment=ENVIRONMENT, required=True)
optional_ledger_option: Final = ledger_options("With --at: the ledger to read", environment=ENVIRONMENT)
recording_options: Final = option_group(
    ledger_options("Record every decision in this database. Needs the extra ledger"),
    click.option(
        "--ledger-retention-days", type=click.IntRange(1, 36_500), default=30, show_default=True,
        help="Remove records of the ledger that are older than this, in days.",
    ),
    click.option(
        "--ledger-retention-gib", type=click.FloatRange(0, 1_000_000, min_open=True), default=5.0, show_default=True,
        help="Remove the oldest records while the ledger is larger than this, in GiB.",
    ),
)  # fmt: skip


def opened(url: str | Path) -> "Store":
    """Open a ledger to read it.

    Raises:
        InputError: the extra is not installed, the URL is not accepted, or there is no ledger.
        LedgerError: the database cannot be reached.
    """
    require_extra()
    from berthmaster.ledger.store import open_store  # noqa: PLC0415 - SQLAlchemy is imported only for a ledger

    try:
        return open_store(url)
    except LedgerError as error:
        raise LedgerError(f"the ledger of --ledger or --ledger-file cannot be opened: {error}") from None


def checked_url(url: str | Path | None) -> str | Path | None:
    """Return the URL of a ledger that is opened later, or the file that holds it.

    Raises:
        InputError: the extra is not installed, or the URL is not accepted.
    """
    if url is not None:
        require_extra()
        from berthmaster.ledger.store import parsed_url  # noqa: PLC0415 - SQLAlchemy is imported only for a ledger

        parsed_url(url)
    return url


def require_extra() -> None:
    """Check that the database libraries are installed.

    Raises:
        InputError: they are not.
    """
    if find_spec("sqlalchemy") is None or find_spec("alembic") is None:
        raise InputError(f"--ledger needs the extra 'ledger': {extra_remedy('ledger')}")


def microseconds(moment: datetime) -> int:
    """Return a time in microseconds since 1970."""
    return round(moment.timestamp() * _MICROSECONDS)


def recorder_from(
    given: Mapping[str, Any], role: str, configuration: "Configuration", *, retains: bool = False
) -> "LedgerRecorder | None":
    """Return a recorder from the values of ``recording_options``; None without ``--ledger``. It is not started.

    Args:
        given: the values.
        role: which kind of process writes.
        configuration: how it decides.
        retains: whether it removes old records.

    Raises:
        InputError: the extra is not installed, or the URL is not accepted.
    """
    url = given["ledger_url"]
    if url is None:
        return None
    require_extra()
    from berthmaster.ledger.recorder import LedgerRecorder  # noqa: PLC0415 - the same
    from berthmaster.ledger.retention import Retention  # noqa: PLC0415 - the same
    from berthmaster.ledger.store import parsed_url  # noqa: PLC0415 - the same
    from berthmaster.runtime.clock import SystemClock  # noqa: PLC0415 - the same

    parsed_url(url)
    retention = None
    if retains:
        age = timedelta(days=given["ledger_retention_days"])
        retention = Retention(age, int(given["ledger_retention_gib"] * 2**30))
    writer = f"{socket.gethostname()}/{os.getpid()}"
    return LedgerRecorder(url, role, writer, configuration, SystemClock(), retention=retention)


def configuration_of(
    profile: "Profile", gates: "FeatureGates", failover_after_s: float | None, producer: str
) -> "Configuration":
    """Return how a process decides, for its records."""
    from berthmaster.ledger.entries import Configuration  # noqa: PLC0415 - the same

    return Configuration(
        __version__,
        tuple(profile.plugins.names),
        profile.keep_empty,
        profile.limits,
        failover_after_s,
        producer,
        gates.as_mapping(),
    )


def checked_range(since: datetime | None, until: datetime | None) -> tuple[int, int]:
    """Return a range of times in microseconds since 1970.

    Raises:
        InputError: the range ends before it starts.
    """
    first = 0 if since is None else microseconds(since)
    last = 2**62 if until is None else microseconds(until)
    if last < first:
        raise InputError(f"--until {shown(str(until))} is before --since {shown(str(since))}")
    return first, last
