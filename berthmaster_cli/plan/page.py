"""A plan as a document: Markdown, or a page of its own. ``review_comment.py`` writes it into pull requests.

The page is HTML without scripts, and needs nothing from a network. In Markdown, names and messages are written with
character references, so that no renderer reads markup in them. Words that could be mentions, references or links are
code, because forges look for those in the rendered text.
"""

import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Final

from berthmaster.model.errors import printable
from berthmaster.simulation.plan_answer import Plan
from berthmaster.views.plan_drawing import TITLE, drawing
from berthmaster.views.plan_sections import INCOMPLETE, heading, headline, opening, sections
from berthmaster.views.texts import Cell, Section, TableColumn

MAX_ROWS: Final = 50
"""The largest number of rows of a table: GitHub refuses comments of more than 65,536 characters."""
_MAX_CELL: Final = 200
_MAX_GAPS: Final = 20
_WORD: Final = re.compile(r"\S+")
_LINKED: Final = re.compile(r"[@#!$~&]|%\w|GH-\d|://|www\.|(?<![0-9a-z])[0-9a-f]{7,40}(?![0-9a-z])", re.IGNORECASE)
"""What GitHub or GitLab would take for a mention, a reference or a link."""
_SPECIAL: Final = re.compile(r"[^A-Za-z0-9 /.,;()=→%…-]|(?<=www)\.")
_HEAD: Final = Template(Path(__file__).with_suffix(".html").read_text("utf-8"))
"""The start of a page, with its style."""
_LONG: Final = 48
"""The characters above which a name may be broken anywhere. Shorter ones are not broken: a name is read as a whole."""


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
        yield _row([_code_cell(row[index]) for index, _ in used])
    yield ""
    if len(section.rows) > MAX_ROWS:
        yield f"and {len(section.rows) - MAX_ROWS} more"
        yield ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _code_cell(cell: Cell) -> str:
    if any(each.is_name for each in cell.words):
        return f"<code>{_references(printable(cell.text, _MAX_CELL))}</code>"
    return _escaped(cell.text)


def _escaped(text: str, limit: int = _MAX_CELL) -> str:
    """Return text that every renderer shows as it is, on one line and with a limited length."""
    return _WORD.sub(lambda found: _shown_word(found[0]), printable(text, limit))


def _shown_word(word: str) -> str:
    shown = _references(word)
    return f"<code>{shown}</code>" if _LINKED.search(word) else shown


def _references(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", text)


def page(plan: Plan, problems: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of the page. ``problems`` are the limits that the plan exceeds."""
    title = headline(plan)
    yield from _HEAD.substitute(id=_text(plan.id)).splitlines()
    yield f"<h1>{_text(title[:1].upper() + title[1:])}</h1>"
    yield f'<p class="id">Plan <code>{_text(plan.id)}</code></p>'
    yield from (f"<p>{_text(line)}</p>" for line in opening(plan))
    yield from (f'<p class="bad">{_text(problem)}</p>' for problem in problems)
    if not plan.complete:
        yield f'<p class="bad">{_text(INCOMPLETE)}</p>'
        yield "<ul>"
        yield from (f"<li>not known: {_text(gap)}</li>" for gap in plan.gaps)
        yield "</ul>"
    yield from _drawing(plan)
    for section in sections(plan):
        yield from _section(section)
    yield "</body>"
    yield "</html>"


def _drawing(plan: Plan) -> Iterator[str]:
    lines = drawing(plan.moves).splitlines()
    if lines:
        yield f"<h2>{TITLE}</h2>"
        yield _scroll(TITLE)
        yield from lines
        yield "</div>"
        yield (
            '<p class="dim">Left: what leaves a cluster. Right: where it goes. Numbers are replicas, or copies of '
            "workloads without replicas.</p>"
        )


def _section(section: Section) -> Iterator[str]:
    used = section.used()
    yield f"<h2>{_text(section.title)}</h2>"
    yield f"{_scroll(section.title)}<table>"
    cells = "".join(f'<th scope="col"{_align(each)}>{_text(heading(each.name))}</th>' for _, each in used)
    yield f"<thead><tr>{cells}</tr></thead>"
    yield "<tbody>"
    for row in section.rows:
        shown = (f"<td{_align(column) or _reading(row[index].text)}>{_cell(row[index])}</td>" for index, column in used)
        yield f"<tr>{''.join(shown)}</tr>"
    yield "</tbody>"
    yield "</table></div>"


def _scroll(label: str) -> str:
    """Return the start of a box that scrolls sideways. It can have the focus, so that the keyboard scrolls it."""
    return f'<div class="scroll" role="region" aria-label="{_text(label)}" tabindex="0">'


def _reading(text: str) -> str:
    """Return the class of a cell with a sentence, which must not become a narrow column."""
    return ' class="text"' if len(text) > _LONG and " " in text else ""


def _align(column: TableColumn) -> str:
    return ' class="number"' if column.is_number else ""


def _cell(cell: Cell) -> str:
    if cell.is_bad:
        return f'<span class="bad">{_text(cell.text)}</span>'
    words = " ".join(_name(each.text) if each.is_name else _text(each.text) for each in cell.words)
    return words or _text(cell.text)


def _name(word: str) -> str:
    return f'<code class="long">{_text(word)}</code>' if len(word) > _LONG else f"<code>{_text(word)}</code>"


def _text(text: str) -> str:
    return escape(printable(text, len(text) + 1))
