"""``berthmaster explain --at``: explain a recorded decision."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console

from berthmaster.model.errors import InputError
from berthmaster.views.texts import assignment_text
from berthmaster_cli.history import moves_text, workload_query
from berthmaster_cli.ledger_options import ENVIRONMENT, MOMENT, microseconds, opened, optional_ledger_option
from berthmaster_cli.options import option_group
from berthmaster_cli.output import print_line, print_table, stdout, styled

if TYPE_CHECKING:
    from berthmaster.ledger.records import InputDifference, PastExplanation, Query

_COLUMNS: Final = ("", "SUBJECT", "WHAT", "BEFORE", "AFTER")
_CHANGES_SHOWN: Final = 30
_CONFLICTS: Final = ("paths", "live", "kubeconfig", "context", "dump", "server")

past_options: Final = option_group(
    optional_ledger_option,
    click.option(
        "--at", type=MOMENT,
        help="Explain the last decision up to this time from the ledger, with the fleet as it was: a time, or a "
        "duration such as 3h.",
    ),
    click.option("--record", default="", metavar="ID", help="Explain the decision with this id, as history shows it."),
    click.option(
        "--diff", is_flag=True,
        help="With --at or --record: also show what changed in the inputs since the decision before, and which of "
        "these changes made the difference. Without them it explains the latest decision.",
    ),
)  # fmt: skip


def asks_for_past(given: Mapping[str, Any]) -> bool:
    """Return whether the values of ``past_options`` ask for a recorded decision.

    Raises:
        click.UsageError: options contradict each other.
    """
    if given["at"] is None and not given["record"] and not given["diff"]:
        return False
    if given["ledger_url"] is None:
        raise click.UsageError(f"--at, --record and --diff need --ledger, or {ENVIRONMENT}")
    if given["at"] is not None and given["record"]:
        raise click.UsageError("--at cannot be combined with --record")
    other = next((name for name in _CONFLICTS if given.get(name)), None)
    if other is not None:
        option = "-f" if other == "paths" else f"--{other}"
        raise click.UsageError(f"{option} cannot be combined with --at, --record and --diff: the ledger has the fleet")
    return True


def explained_past(words: Sequence[str], given: Mapping[str, Any]) -> "PastExplanation":
    """Return the explanation of a recorded decision.

    Raises:
        InputError: the ledger has no such decision, or none before it.
        LedgerError: the database cannot be read.
    """
    from berthmaster.ledger.answers import explain_decision  # noqa: PLC0415 - SQLAlchemy is imported only for a ledger
    from berthmaster.ledger.records import RecordId  # noqa: PLC0415 - the same

    query = workload_query(words, given["namespace"])
    wanted: Query | RecordId
    if given["record"]:
        wanted = RecordId.parse(given["record"])
    else:
        wanted = query if given["at"] is None else query._replace(until_us=microseconds(given["at"]))
    found = explain_decision(opened(given["ledger_url"]), wanted, difference=given["diff"])
    record = found.record
    if query.name != record.name or query.resource_kind != record.resource_kind:
        raise InputError(
            f"decision {record.id} is about {record.resource}, and not about {query.resource_kind} {query.name}"
        )
    if given["diff"] and found.difference is None:
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
