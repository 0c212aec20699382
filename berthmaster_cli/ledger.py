"""``berthmaster ledger``: verify and export the ledger, and remove old records."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final

import click
from msgspec.structs import replace

from berthmaster.ledger.entries import Configuration
from berthmaster.ledger.records import Audit
from berthmaster.ledger.times import microseconds
from berthmaster.model.errors import InputError
from berthmaster.version import __version__
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.flags import option, options
from berthmaster_cli.ledger_options import RangeFlags, ReadLedgerFlags, recorder_from
from berthmaster_cli.main import EXIT_CHECK_FAILED
from berthmaster_cli.output import OutputFlags, echo, print_answer

_NO_SEGMENT: Final = 2**31
_READ: Final = "The ledger to read"
_AUDIT: Final = AnswerKind("LedgerAudit", Audit)


@click.group(context_settings={"auto_envvar_prefix": "BERTHMASTER_LEDGER"})
def command() -> None:
    """Verify and export the ledger that the controllers write, and remove old records."""


class _LedgerVerifyFlags(OutputFlags, ReadLedgerFlags):
    head: str = option("Also compare the digest of everything with this one.", "", metavar="DIGEST")


@command.command(
    short_help="Find changed, removed and swapped records.",
    epilog="Exit codes: 0 every record is as it was written; 1 a record was changed, removed or swapped.",
)
@options(_LedgerVerifyFlags, ledger=_READ)
@click.pass_context
def verify(ctx: click.Context, flags: _LedgerVerifyFlags, /) -> None:
    """Read the whole ledger, and find changed, removed and swapped records.

    Prints the digest of everything. Keep it elsewhere: it finds a ledger that was replaced as a whole.
    """
    from berthmaster.ledger.audit import audit  # noqa: PLC0415 - SQLAlchemy is imported only for a ledger

    result = audit(flags.opened())
    problems = list(result.problems)
    if flags.head and flags.head != result.head:
        problems.append(
            f"the digest of everything is {result.head}, and not {flags.head}: records were added or replaced"
        )
    if flags.output != "table":
        print_answer(_AUDIT, replace(result, problems=problems), flags.output)
    else:
        for problem in problems:
            echo(problem)
        for gap in result.gaps:
            echo("missing: ", gap)
        counts = f"{result.records} records in {result.batches} batches and {result.segments} segments"
        found = "as they were written" if result.records else "the ledger is empty, so that nothing was verified"
        echo(f"{counts}: ", f"{len(problems)} problems" if problems else found)
        echo("digest: ", result.head)
    ctx.exit(EXIT_CHECK_FAILED if problems else 0)


class _LedgerExportFlags(RangeFlags):
    form: str = option(
        "JSON Lines, or Parquet, which needs the extra parquet.",
        "jsonl", click.Choice(["jsonl", "parquet"]), names=("--format",),
    )  # fmt: skip
    redact: bool = option("Leave out what --dump --redact leaves out.")
    fleet: bool = option("Add to each decision the clusters that changed since the one before.")
    path: Path | None = option("Write to this file. Default: standard output.", names=("--file",))


@command.command()
@options(_LedgerExportFlags, ledger=_READ, records="records")
def export(flags: _LedgerExportFlags) -> None:
    """Export records, the first ones first."""
    from berthmaster.ledger.export import exported, write_json_lines, write_parquet  # noqa: PLC0415 - the same

    since_us, until_us = flags.range_us()
    path, parquet = flags.path, flags.form == "parquet"
    if parquet and path is None:
        raise click.UsageError("--format parquet needs --file")
    records = exported(flags.opened(), since_us, until_us, redact=flags.redact, fleet=flags.fleet)
    write = write_parquet if parquet else write_json_lines
    if path is None:
        write(records, sys.stdout.buffer)
        return
    with _written(path) as out:
        count = write(records, out)
    echo(f"{count} records written to ", str(path), error=True)


@contextmanager
def _written(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write. It gets its name when it is complete, so that a failure leaves no part of it."""
    special = path.exists() and not path.is_file()  # such as a pipe
    partial = path if special else path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as out:
            yield out
        if not special:
            partial.replace(path)
    except OSError as error:
        raise InputError(f"--file {path}: {error.strerror or error}; name a file that can be written") from None
    finally:
        if not special:
            partial.unlink(missing_ok=True)


class _LedgerRetentionFlags(ReadLedgerFlags):
    days: int = option("Remove records older than this, in days.", 30, click.IntRange(1, 36_500))
    gib: float = option(
        "Remove the oldest records while the ledger is larger than this, in GiB.",
        5.0, click.FloatRange(0, 1_000_000, min_open=True),
    )  # fmt: skip


@command.command()
@options(_LedgerRetentionFlags, ledger=_READ)
def retention(flags: _LedgerRetentionFlags) -> None:
    """Remove old records now. The controllers do the same all the time, in small steps.

    Removes whole segments of records, and whole partitions of PostgreSQL. A record in the chain says what was removed.
    """
    from berthmaster.ledger.retention import Retention  # noqa: PLC0415 - the same
    from berthmaster.ledger.store import open_store  # noqa: PLC0415 - the same

    flags.opened().close()
    recorder = recorder_from(flags.ledger, "command", Configuration(__version__, ()))
    if recorder is None or flags.ledger is None:
        return
    store, rule = open_store(flags.ledger, create=True), Retention(timedelta(days=flags.days), int(flags.gib * 2**30))
    click.get_current_context().call_on_close(store.close)
    if not store.may_remove():
        raise InputError(
            "the user of the ledger does not own its tables, and only their owner may remove records; name a URL with "
            "the user that created them"
        )
    store.begin_partition(microseconds(datetime.now(UTC)))
    removed = 0
    while True:
        busy, note = rule.busy, rule.step(store, _NO_SEGMENT, datetime.now(UTC))
        if note is None and not busy:
            break
        if note is not None:
            removed += note.details["records"]
            recorder.noted(note)
            recorder.flush()  # the note comes first: the chain says what is missing, even if this is interrupted
    recorder.flush(last=True)
    echo(f"removed {removed} records; the ledger stores {store.size_bytes()} bytes")
