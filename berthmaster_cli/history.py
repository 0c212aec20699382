"""``berthmaster history``: what moved when, from where to where, why, and by which policy."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click
from rich.text import Text

from berthmaster.ledger.records import HistoryRow
from berthmaster.model.errors import LedgerError
from berthmaster.simulation.change_texts import full_name
from berthmaster_cli import completion
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.flags import argument, option, options
from berthmaster_cli.ledger_options import RangeFlags
from berthmaster_cli.options import AccessFlags
from berthmaster_cli.output import OutputFlags, complain, print_answer, print_json_line, print_line, print_table, styled
from berthmaster_cli.resource_names import resource_argument
from berthmaster_cli.source_options import NamespaceFlags, SelectorFlags

if TYPE_CHECKING:
    from berthmaster.ledger.records import Page, Query
    from berthmaster.ledger.store import Store

_COLUMNS: Final = ("TIME", "ID", "RESOURCE", "TRIGGER", "POLICY", "MOVES", "WHY")
_POLL_S: Final = 2.0
_ANSWER: Final = AnswerKind("HistoryRecordList", list[HistoryRow])


class _HistoryFlags(NamespaceFlags, SelectorFlags, RangeFlags, AccessFlags, OutputFlags):
    selector: str = option(
        "Only the workloads that have these labels now, as in kubectl. Asks the control plane.",
        "", names=("-l", "--selector"), metavar="SELECTOR",
    )  # fmt: skip
    cluster: str = option(
        "Only records that change the replicas on this cluster, or evict from it.",
        "",
        metavar="NAME",
        shell_complete=completion.clusters,
    )
    policy: str = option(
        "Only workloads of this policy: NAME or NAMESPACE/NAME.", "", metavar="NAME", shell_complete=completion.policies
    )
    trigger: str = option(
        "Only decisions with this trigger, such as Failover, or other records of this kind, such as preemption.",
        "", metavar="NAME",
    )  # fmt: skip
    user: str = option("Only changes that this user made, as the API server names users.", "", metavar="NAME")
    limit: int = option("The most records to print.", 50, click.IntRange(1, 100_000))
    watch: bool = option("Then print new records as they are written.", names=("-w", "--watch"))
    resource: tuple[str, ...] = argument(metavar="[TYPE/NAME]", nargs=-1, shell_complete=completion.workloads)


@click.command(context_settings={"auto_envvar_prefix": "BERTHMASTER_HISTORY"})
@options(
    _HistoryFlags, ledger="The ledger to read", records="records", server="the control plane that -l asks for labels"
)
def command(flags: _HistoryFlags) -> None:
    """Show what moved when, from where to where, why, and by which policy.

    Reads the ledger that the controllers write. The latest records come first. TYPE/NAME is as in kubectl, for
    example deploy/checkout.

    \b
    Examples:
      berthmaster history deploy/checkout -n shop --since 24h
      berthmaster history --cluster member7 --trigger Failover
    """
    from berthmaster.ledger.history import written  # noqa: PLC0415 - SQLAlchemy is imported only for a ledger

    output = flags.output
    if flags.watch and output == "yaml":
        raise click.UsageError("-w cannot be combined with -o yaml; use -o json, one object per line")
    since_us, until_us = flags.range_us()
    query = workload_query(flags.resource, flags.namespace)._replace(
        cluster=flags.cluster, policy=flags.policy, trigger=flags.trigger, user=flags.user, since_us=since_us,
        until_us=until_us,
    )  # fmt: skip
    if flags.labels is not None:
        query = _choosing(query, flags)
    else:
        flags.refuse_manner_of_files("add -l")
    store = flags.opened()
    known = written(store) if flags.watch else {}
    found = _newest(store, query, flags.limit)
    rows = found.rows[::-1] if flags.watch else found.rows
    if output == "table":
        if rows:
            print_table(_COLUMNS, [_cells(row) for row in rows])
        else:
            complain("the ledger has no such records")
        if found.after is not None:
            complain(f"there are more than {flags.limit} records; the latest are shown, see --limit and --since")
    elif not flags.watch:
        print_answer(_ANSWER, found.rows, output)
    if flags.watch:
        _watch(store, query, known, rows, flags)


def _choosing(query: "Query", flags: _HistoryFlags) -> "Query":
    """Return the query for what -l chooses now."""
    from berthmaster_cli.live.labelled import LabelledResources  # noqa: PLC0415 - only labels need a client

    return query._replace(is_chosen=LabelledResources(flags.access(), flags.selector, query.namespace).has)


def _newest(store: "Store", query: "Query", limit: int) -> "Page":
    """Return the latest records, at most ``limit``. A page can have fewer than there are."""
    from berthmaster.ledger.history import page  # noqa: PLC0415 - SQLAlchemy is imported only for a ledger

    found = page(store, query, limit)
    while len(found.rows) < limit and found.after is not None:
        more = page(store, query, limit - len(found.rows), found.after)
        found = more._replace(rows=[*found.rows, *more.rows])
    return found


def workload_query(words: Sequence[str], namespace: str) -> "Query":
    """Return the query for a workload as a user names it; for all records of a namespace without words."""
    from berthmaster.ledger.records import Query  # noqa: PLC0415 - the same

    if not words:
        return Query(namespace=namespace)
    name = full_name(resource_argument(words, namespace), namespace)
    return Query(namespace=name.namespace, resource_kind=name.kind, name=name.name)


def _cells(row: HistoryRow) -> tuple[str | Text, ...]:
    failed = row.kind == "decision" and row.reason != "Success"
    why = styled(f"{row.reason}: {row.message}", "red") if failed else (row.message if row.before is None else "")
    evicted = f"evicted from {', '.join(row.evicted_from)}" if row.evicted_from else ""
    notes = ", ".join(filter(None, (evicted, f"group {row.group}" if row.group else "")))
    return (
        row.time[:19] + "Z", row.id, row.resource, row.trigger or row.kind, row.policy.rpartition(" ")[2],
        moves_text(row), why or notes,
    )  # fmt: skip


def moves_text(row: HistoryRow) -> str | Text:
    """Return what moved: ``+member2=3 -member1``, or the new number of replicas where it changed."""
    if row.before is None or row.after is None:
        return ""
    parts = []
    for name in sorted(row.before.keys() | row.after.keys()):
        before, after = row.before.get(name), row.after.get(name)
        if before == after:
            continue
        if before is None:
            parts.append(f"+{name}={after}" if after else f"+{name}")
        elif after is None:
            parts.append(f"-{name}={before}" if before else f"-{name}")
        else:
            parts.append(f"{name} {before}→{after}")
    return ", ".join(parts) or styled("none", "dim")


def _watch(
    store: "Store", query: "Query", known: "Mapping[int, int]", rows: Sequence[HistoryRow], flags: _HistoryFlags
) -> None:
    """Print records that are written from now on, until the process is interrupted."""
    from berthmaster.ledger.history import written, written_since  # noqa: PLC0415 - the same

    printed, output = {row.id for row in rows}, flags.output
    if output == "json":
        for row in rows:
            print_json_line(_ANSWER, [row])
    while True:
        time.sleep(_POLL_S)
        try:
            if flags.selector and written(store) != known:
                query = _choosing(query, flags)
            new, known = written_since(store, query, known)
        except LedgerError as error:
            complain(f"the ledger cannot be read, trying again: {error}")
            continue
        for row in new:
            if row.id in printed:
                continue
            if output == "json":
                print_json_line(_ANSWER, [row])
            else:
                print_line(*(part for cell in _cells(row) if cell for part in (cell, "  ")))
