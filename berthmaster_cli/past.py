"""``berthmaster explain --at``: explain a recorded decision."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console

from berthmaster.model.errors import InputError
from berthmaster.views.texts import assignment_text
from berthmaster_cli.flags import option
from berthmaster_cli.history import moves_text, workload_query
from berthmaster_cli.inputs import InputFlags
from berthmaster_cli.ledger_options import ENVIRONMENT, MOMENT, LedgerFlags, microseconds, opened
from berthmaster_cli.output import print_line, print_table, stdout, styled

if TYPE_CHECKING:
    from berthmaster.ledger.records import InputDifference, PastExplanation, Query

_COLUMNS: Final = ("", "SUBJECT", "WHAT", "BEFORE", "AFTER")
_CHANGES_SHOWN: Final = 30
_CONFLICTS: Final = ("paths", "live", "kubeconfig", "context", "dump", "server")


class PastFlags(InputFlags, LedgerFlags):
    """Which recorded decision is explained."""

    at: datetime | None = option(
        "Explain the last decision up to this time from the ledger, with the fleet as it was: a time, or a "
        "duration such as 3h.",
        type=MOMENT,
    )  # fmt: skip
    record: str = option("Explain the decision with this id, as history shows it.", "", metavar="ID")
    diff: bool = option(
        "With --at or --record: also show what changed in the inputs since the decision before, and which of "
        "these changes made the difference. Without them it explains the latest decision.",
    )  # fmt: skip


def past_ledger(flags: PastFlags) -> str | Path | None:
    """Return the ledger if the options ask for a recorded decision; None if they do not."""
    if flags.at is None and not flags.record and not flags.diff:
        return None
    if flags.ledger_url is None:
        raise click.UsageError(f"--at, --record and --diff need --ledger, or {ENVIRONMENT}")
    if flags.at is not None and flags.record:
        raise click.UsageError("--at cannot be combined with --record")
    other = next((name for name in _CONFLICTS if getattr(flags, name)), None)
    if other is not None:
        option = "-f" if other == "paths" else f"--{other}"
        raise click.UsageError(f"{option} cannot be combined with --at, --record and --diff: the ledger has the fleet")
    return flags.ledger_url


def explained_past(words: Sequence[str], ledger: str | Path, flags: PastFlags) -> "PastExplanation":
    """Return the explanation of a recorded decision."""
    from berthmaster.ledger.answers import explain_decision  # noqa: PLC0415 - SQLAlchemy is imported only for a ledger
    from berthmaster.ledger.records import RecordId  # noqa: PLC0415 - the same

    query = workload_query(words, flags.namespace)
    wanted: Query | RecordId
    if flags.record:
        wanted = RecordId.parse(flags.record)
    else:
        wanted = query if flags.at is None else query._replace(until_us=microseconds(flags.at))
    found = explain_decision(opened(ledger), wanted, difference=flags.diff)
    record = found.record
    if query.name != record.name or query.resource_kind != record.resource_kind:
        raise InputError(
            f"decision {record.id} is about {record.resource}, and not about {query.resource_kind} {query.name}"
        )
    if flags.diff and found.difference is None:
        raise InputError(f"the ledger has no decision on this binding before {record.id}; leave out --diff")
    return found


def print_record(console: Console, explained: "PastExplanation") -> None:
    """Print which decision is explained: the lines above the diagnosis."""
    record = explained.record
    print_line(
        console, styled(f"decision {record.id}", "bold"), f" of {record.time[:19]}Z, fleet {record.fleet[:12]}: ",
        moves_text(record),
    )  # fmt: skip
    for note in explained.notes:
        print_line(console, styled(note, "yellow"))


def print_difference(difference: "InputDifference") -> None:
    """Print what changed, the decisive changes first."""
    console = stdout()
    console.print()
    print_line(console, styled(f"since decision {difference.previous}: ", "bold"), difference.summary)
    shown = difference.changes[:_CHANGES_SHOWN]
    if shown:
        rows = [
            (styled("*", "bold green") if each.decisive else "", each.subject, each.aspect, each.before, each.after)
            for each in shown
        ]
        print_table(console, _COLUMNS, rows)
    more = len(difference.changes) - len(shown)
    if more > 0:
        print_line(console, f"and {more} more; -o json shows all")
    if difference.without is not None:
        clusters = assignment_text(dict(difference.without)) or "no cluster"
        print_line(console, "without the changes marked *: ", clusters)
