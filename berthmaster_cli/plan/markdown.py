"""A plan as Markdown, for a comment on a pull request.

Names and messages are written with character references, so that no renderer reads markup, mentions or links in them.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from berthmaster.model.errors import printable
from berthmaster.simulation.plan_answer import Plan
from berthmaster.views.plan_sections import INCOMPLETE, heading, headline, opening, sections
from berthmaster.views.texts import Cell, Section

MAX_ROWS: Final = 50
"""The largest number of rows of a table: GitHub refuses comments of more than 65,536 characters."""
_MAX_CELL: Final = 200
_MAX_GAPS: Final = 20
_SPECIAL: Final = re.compile(r"[^A-Za-z0-9 /.,;()=→%…-]|(?<=www)\.")


def markdown_lines(plan: Plan, problems: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of a plan in Markdown. ``problems`` are the limits that it exceeds."""
    for problem in problems:
        yield f"**{_escaped(problem, len(problem))}**"
        yield ""
    yield f"### Plan <code>{plan.id}</code>: {_escaped(headline(plan), len(headline(plan)))}"
    yield ""
    for line in opening(plan):
        yield _escaped(line, len(line))
        yield ""
    if not plan.complete:
        yield f"**{_escaped(INCOMPLETE)}**"
        yield ""
        yield from (f"- not known: {_escaped(gap, 2 * _MAX_CELL)}" for gap in plan.gaps[:_MAX_GAPS])
        if len(plan.gaps) > _MAX_GAPS:
            yield f"- and {len(plan.gaps) - _MAX_GAPS} more"
        yield ""
    for section in sections(plan):
        yield from _table(section)


def _table(section: Section) -> Iterator[str]:
    used = section.used()
    yield f"**{section.title}**"
    yield ""
    yield _row([heading(each.name) for _, each in used])
    yield _row(["---:" if each.is_number else "---" for _, each in used])
    for row in section.rows[:MAX_ROWS]:
        yield _row([_cell(row[index]) for index, _ in used])
    yield ""
    if len(section.rows) > MAX_ROWS:
        yield f"and {len(section.rows) - MAX_ROWS} more"
        yield ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    escaped = _escaped(cell.text)
    return f"<code>{escaped}</code>" if any(each.is_name for each in cell.words) else escaped


def _escaped(text: str, limit: int = _MAX_CELL) -> str:
    """Return text that every renderer shows as it is, on one line and with a limited length."""
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", printable(text, limit))
