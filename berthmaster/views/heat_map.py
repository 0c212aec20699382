"""A heat map of failures as SVG: one row per failure, one column per cluster. It needs no network and no script."""

from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape

from berthmaster.model.printable import printable
from berthmaster.simulation.failures import Impact

MAX_ROWS: Final = 200
MAX_COLUMNS: Final = 500
_CELL: Final = 16
_NAMESPACE: Final = "http://www.w3.org/2000/svg"
_FONT: Final = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="11"'
_CHARACTER: Final = 6.7  # the width of a character of the font, in pixels
_MARGIN: Final = 16
_TITLE: Final = 56
_LEGEND: Final = 48
_COUNTS: Final = (("nowhere", "#b3261e"), ("short", "#c4630a"), ("staying", "#8a6d00"))
_COUNT_WIDTH: Final = 62
_LOST: Final = "#3c4043"
_EMPTY: Final = "#f1f3f4"
_OVER: Final = "#d93025"
_LONGEST_NAME: Final = 40


def heat_map(impacts: Sequence[Impact], clusters: Sequence[str]) -> str:
    """Return an SVG document.

    Args:
        impacts: the failures, the worst first. Above ``MAX_ROWS`` the rest is left out, and the picture says so.
        clusters: the names of all clusters. Above ``MAX_COLUMNS`` the rest is left out.
    """
    shown, columns = impacts[:MAX_ROWS], clusters[:MAX_COLUMNS]
    names = [_shortened(f"{each.domain} {each.name}") for each in shown]
    left = _MARGIN + _width(max(map(len, names), default=0)) + 8
    top = _TITLE + _width(max((len(_shortened(name)) for name in columns), default=0)) + 8
    grid = left + len(_COUNTS) * _COUNT_WIDTH
    width = int(max(grid + len(columns) * _CELL + _MARGIN, 760))
    height = int(top + len(shown) * _CELL + _LEGEND + _MARGIN)
    view = f'viewBox="0 0 {width} {height}"'
    parts = [
        f'<svg xmlns="{_NAMESPACE}" width="{width}" height="{height}" {view} {_FONT}>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *_heading(impacts, clusters),
        *_columns(columns, grid, top),
    ]
    most = max((count for each in shown for count in each.arriving.values()), default=0)
    for row, (impact, name) in enumerate(zip(shown, names, strict=True)):
        parts.extend(_row(impact, name, columns, (left, grid, top + row * _CELL), most))
    parts.extend(_legend(top + len(shown) * _CELL + 20, most))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _heading(impacts: Sequence[Impact], clusters: Sequence[str]) -> Iterator[str]:
    yield f'<text x="{_MARGIN}" y="22" font-size="15" font-weight="bold">Where replicas go if a failure occurs</text>'
    hidden = []
    if len(impacts) > MAX_ROWS:
        hidden.append(f"{len(impacts) - MAX_ROWS} less severe failures are not shown")
    if len(clusters) > MAX_COLUMNS:
        hidden.append(f"{len(clusters) - MAX_COLUMNS} clusters are not shown")
    text = "; ".join(["Rows: what fails, the worst first. Columns: the clusters that get replicas", *hidden])
    yield f'<text x="{_MARGIN}" y="40" fill="#5f6368">{escape(text)}.</text>'


def _columns(columns: Sequence[str], grid: float, top: float) -> Iterator[str]:
    for index, (text, color) in enumerate(_COUNTS):
        x = grid - (len(_COUNTS) - index) * _COUNT_WIDTH + _COUNT_WIDTH - 8
        yield f'<text x="{x:.0f}" y="{top - 6:.0f}" text-anchor="end" fill="{color}">{text}</text>'
    for index, name in enumerate(columns):
        x, y = grid + index * _CELL + 12, top - 6
        place = f'x="{x:.0f}" y="{y:.0f}" transform="rotate(-90 {x:.0f} {y:.0f})"'
        yield f"<text {place}>{escape(_shortened(name))}</text>"


def _row(impact: Impact, name: str, columns: Sequence[str], at: tuple[float, float, float], most: int) -> Iterator[str]:
    left, grid, y = at
    yield f'<text x="{left - 8:.0f}" y="{y + 12:.0f}" text-anchor="end">{escape(name)}</text>'
    for index, (count, color) in enumerate(_counts(impact)):
        x = grid - (len(_COUNTS) - index) * _COUNT_WIDTH + _COUNT_WIDTH - 8
        fill, weight = (color, ' font-weight="bold"') if count else ("#9aa0a6", "")
        yield f'<text x="{x:.0f}" y="{y + 12:.0f}" text-anchor="end" fill="{fill}"{weight}>{count}</text>'
    lost = set(impact.clusters)
    for index, cluster in enumerate(columns):
        yield _cell(impact, cluster, (grid + index * _CELL, y), most, is_lost=cluster in lost)


def _counts(impact: Impact) -> list[tuple[int, str]]:
    return [(count, color) for count, (_, color) in zip(impact.counts, _COUNTS, strict=True)]


def _cell(impact: Impact, cluster: str, at: tuple[float, float], most: int, *, is_lost: bool) -> str:
    count = impact.arriving.get(cluster, 0)
    over = impact.overcommitted.get(cluster, [])
    fill = _LOST if is_lost else _shade(count, most)
    stroke = f' stroke="{_OVER}" stroke-width="2"' if over else ""
    if is_lost:
        said = f"{cluster} is lost"
    else:
        said = f"{cluster} gets {count} replicas" + (f", more {' and '.join(over)} than is free" if over else "")
    x, y = at
    return (
        f'<rect x="{x + 1:.0f}" y="{y + 1:.0f}" width="{_CELL - 2}" height="{_CELL - 2}" rx="2" fill="{fill}"{stroke}>'
        f"<title>{escape(printable(f'{impact.domain} {impact.name}: {said}'))}</title></rect>"
    )


def _legend(y: float, most: int) -> Iterator[str]:
    entries = [(_EMPTY, "", "gets nothing")]
    if most:
        entries.append((_shade(1, most), "", "gets 1 replica"))
        entries.append((_shade(most, most), "", f"gets {most} replicas"))
        entries.append((_EMPTY, f' stroke="{_OVER}" stroke-width="2"', "gets more than is free"))
    entries.append((_LOST, "", "is lost"))
    x = float(_MARGIN)
    for fill, stroke, text in entries:
        yield f'<rect x="{x:.0f}" y="{y:.0f}" width="12" height="12" rx="2" fill="{fill}"{stroke}/>'
        yield f'<text x="{x + 18:.0f}" y="{y + 10:.0f}">{escape(text)}</text>'
        x += 18 + _width(len(text)) + 18


def _shade(count: int, most: int) -> str:
    """Return a colour between light and dark blue. The square root keeps small numbers visible."""
    if not count:
        return _EMPTY
    part = (count / most) ** 0.5
    red, green, blue = (round(light + (dark - light) * part) for light, dark in ((210, 11), (227, 61), (252, 145)))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _shortened(name: str) -> str:
    return printable(name, _LONGEST_NAME)


def _width(characters: int) -> float:
    return characters * _CHARACTER
