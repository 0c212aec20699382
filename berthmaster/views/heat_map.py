"""A heat map of failures as SVG: one row per failure, one column per cluster. It needs no network and no script.

The picture has colors for light and dark backgrounds. A file carries them in a style sheet of its own. A page that
contains the picture has the style sheet, because a content security policy may refuse one inside the picture.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from berthmaster.model.errors import printable
from berthmaster.simulation.failures import Impact
from berthmaster.views.texts import count_text

MAX_ROWS: Final = 200
MAX_COLUMNS: Final = 500
TITLE: Final = "Where failover puts replicas if a failure occurs"
_CELL: Final = 16
_NAMESPACE: Final = "http://www.w3.org/2000/svg"
_FONT: Final = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="11"'
_CHARACTER: Final = 6.7  # the width of a character of the font, in pixels
_MARGIN: Final = 16
_HEADING: Final = 56
_LEGEND: Final = 48
_COUNTS: Final = (("no copy", "nowhere"), ("nowhere", "nowhere"), ("short", "short"), ("staying", "staying"))
"""The numbers of a row: the heading, and the class of the color."""
_COUNT_WIDTH: Final = 62
_LONGEST_NAME: Final = 40
_COLORS: Final = {
    "paper": ("#ffffff", "#14181e"), "ink": ("#1c2430", "#e4e8ee"), "dim": ("#5b6675", "#9aa5b4"),
    "nowhere": ("#b3261e", "#ff8a80"), "short": ("#9a4a00", "#ffb36b"), "staying": ("#6f5600", "#e0c060"),
    "empty": ("#eef1f4", "#232a33"), "lost": ("#3c4043", "#c3cad3"), "mark": ("#ffffff", "#14181e"),
    "s1": ("#cfe0f8", "#20406b"), "s2": ("#a4c2ee", "#2b5690"), "s3": ("#7aa3e0", "#3d70b5"),
    "s4": ("#4f82cc", "#578ed6"), "s5": ("#2a60b0", "#7fb0ee"), "s6": ("#0b3d91", "#b4d3fb"),
}  # fmt: skip
"""The fill of each class on a light and on a dark background."""
_STEPS: Final = 6
_OVER: Final = ("#d93025", "#ff6b60")
"""The outline of a cluster that gets more than is free."""


class _Place(NamedTuple):
    """Where a row is: the left edge of the counts, the left edge of the cells, and the upper edge."""

    counts: float
    cells: float
    top: float


def heat_map(
    impacts: Sequence[Impact],
    clusters: Sequence[str],
    *,
    limits: tuple[int, int] = (MAX_ROWS, MAX_COLUMNS),
    failures: int = 0,
    noun: str = "cluster",
    embedded: bool = False,
) -> str:
    """Return an SVG document.

    Args:
        limits: the most rows and columns. The rest is left out, and the picture says so.
        failures: the number of all failures, if ``impacts`` has fewer.
        embedded: whether the picture is a part of a page that has the style sheet.
    """
    shown, columns = impacts[: limits[0]], clusters[: limits[1]]
    names = [_shortened(f"{each.domain} {each.name}") for each in shown]
    counts = _MARGIN + _width(max(map(len, names), default=0)) + 8
    cells = counts + len(_COUNTS) * _COUNT_WIDTH
    top = _HEADING + _width(max((len(_shortened(name)) for name in columns), default=0)) + 8
    hidden = max(failures, len(impacts)) - len(shown), len(clusters) - len(columns)
    heading = _heading(*hidden, noun, moves=not impacts or impacts[0].assumptions.moves_off_lost)
    width = int(max(cells + len(columns) * _CELL + _MARGIN, _MARGIN + _width(len(heading)) + _MARGIN, 760))
    height = int(top + len(shown) * _CELL + _LEGEND + _MARGIN)
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    most = max((count for each in shown for count in each.arriving.values()), default=0)
    parts = [
        f'<svg xmlns="{_NAMESPACE}" class="heat" {size} {_FONT} role="img" aria-label="{TITLE}">',
        *([] if embedded else [_style()]),
        f"<rect {_fill('paper')} {_size(width, height)}/>",
        f'<text x="{_MARGIN}" y="22" font-size="15" font-weight="bold" {_fill("ink")}>{TITLE}</text>',
        f'<text x="{_MARGIN}" y="40" {_fill("dim")}>{escape(heading)}</text>',
        *_columns(columns, cells, top),
    ]
    for row, (impact, name) in enumerate(zip(shown, names, strict=True)):
        parts.extend(_row(impact, name, columns, _Place(counts, cells, top + row * _CELL), most))
    parts.extend(_legend(top + len(shown) * _CELL + 20, most))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _style() -> str:
    """Return the style sheet of a picture in a file of its own."""
    light, dark = (
        [f".{name} {{ fill: {colors[scheme]}; }}" for name, colors in _COLORS.items()]
        + [f".over {{ stroke: {_OVER[scheme]}; }}"]
        for scheme in (0, 1)
    )
    return "\n".join(["<style>", *light, "@media (prefers-color-scheme: dark) {", *dark, "}", "</style>"])


def _heading(rows: int, columns: int, noun: str, *, moves: bool) -> str:
    hidden = [
        _not_shown(rows, "less severe failure"),
        _not_shown(columns, noun),
    ]
    first = f"Rows: what fails, the worst first. Columns: the {noun}s that get replicas by failover"
    if not moves:
        first = f"Failover is off: no {noun} gets replicas. Rows: what fails, the worst first"
    return f"{'; '.join(filter(None, [first, *hidden]))}."


def _not_shown(count: int, noun: str) -> str:
    if count <= 0:
        return ""
    return f"1 {noun} is not shown" if count == 1 else f"{count:,} {noun}s are not shown"


def _columns(columns: Sequence[str], cells: float, top: float) -> Iterator[str]:
    for index, (name, kind) in enumerate(_COUNTS):
        yield f"<text {_count_place(index, cells, top - 6)} {_fill(kind)}>{name}</text>"
    for index, name in enumerate(columns):
        x, y = cells + index * _CELL + 12, top - 6
        place = f'x="{x:.0f}" y="{y:.0f}" transform="rotate(-90 {x:.0f} {y:.0f})"'
        yield f"<text {place} {_fill('ink')}>{escape(_shortened(name))}</text>"


def _row(impact: Impact, name: str, columns: Sequence[str], place: _Place, most: int) -> Iterator[str]:
    base = place.top + 12
    yield f'<text x="{place.counts - 8:.0f}" y="{base:.0f}" text-anchor="end" {_fill("ink")}>{escape(name)}</text>'
    for index, (count, (_, kind)) in enumerate(zip(impact.counts, _COUNTS, strict=True)):
        how = f'{_fill(kind)} font-weight="bold"' if count else _fill("dim")
        yield f"<text {_count_place(index, place.cells, base)} {how}>{count:,}</text>"
    if columns:
        size = _size(len(columns) * _CELL - 2, _CELL - 2)
        yield f'<rect x="{place.cells + 1:.0f}" y="{place.top + 1:.0f}" {size} {_fill("empty")}/>'
    lost = set(impact.clusters)
    for index, cluster in enumerate(columns):
        if cluster in lost or cluster in impact.arriving or cluster in impact.overcommitted:
            at = place.cells + index * _CELL, place.top
            yield _cell(impact, cluster, at, most, is_lost=cluster in lost)


def _count_place(index: int, cells: float, base: float) -> str:
    x = cells - (len(_COUNTS) - index) * _COUNT_WIDTH + _COUNT_WIDTH - 8
    return f'x="{x:.0f}" y="{base:.0f}" text-anchor="end"'


def _cell(impact: Impact, cluster: str, at: tuple[float, float], most: int, *, is_lost: bool) -> str:
    count = impact.arriving.get(cluster, 0)
    over = impact.overcommitted.get(cluster, [])
    if is_lost:
        effect = f"{cluster} is lost"
    else:
        more = f", more {' and '.join(over)} than is free" if over else ""
        effect = f"{cluster} gets {count_text(count, 'replica')}{more}"
    title = f"<title>{escape(printable(f'{impact.domain} {impact.name}: {effect}'))}</title>"
    square = _square(at, "lost" if is_lost else _shade(count, most), is_over=bool(over) and not is_lost)
    return f"<g>{title}{square}{_cross(at) if is_lost else ''}</g>"


def _square(at: tuple[float, float], kind: str, *, is_over: bool) -> str:
    x, y = at
    if not is_over:
        return f'<rect x="{x + 1:.0f}" y="{y + 1:.0f}" {_size(_CELL - 2, _CELL - 2)} {_fill(kind)}/>'
    return (
        f'<rect x="{x + 2:.0f}" y="{y + 2:.0f}" {_size(_CELL - 4, _CELL - 4)} class="{kind} over" '
        f'fill="{_COLORS[kind][0]}" stroke="{_OVER[0]}" stroke-width="3"/>'
    )


def _cross(at: tuple[float, float]) -> str:
    """Return a cross: color is not the only sign of a lost cluster."""
    return f'<text x="{at[0] + 8:.0f}" y="{at[1] + 12:.0f}" text-anchor="middle" {_fill("mark")}>×</text>'


def _legend(y: float, most: int) -> Iterator[str]:
    entries = [("empty", False, "gets nothing")]
    if most:
        entries.append((_shade(1, most), False, "gets 1 replica"))
        entries.append((_shade(most, most), False, f"gets {count_text(most, 'replica')}"))
        entries.append(("empty", True, "gets more than is free"))
    entries.append(("lost", False, "is lost"))
    x = float(_MARGIN)
    for kind, is_over, text in entries:
        yield _square((x, y), kind, is_over=is_over)
        if kind == "lost":
            yield _cross((x, y))
        yield f'<text x="{x + 22:.0f}" y="{y + 12:.0f}" {_fill("ink")}>{escape(text)}</text>'
        x += 22 + _width(len(text)) + 18


def _shade(count: int, most: int) -> str:
    """Return the class of a number of replicas. The square root keeps small numbers apart."""
    if not count:
        return "empty"
    return f"s{max(1, round((count / most) ** 0.5 * _STEPS))}"


def _fill(kind: str) -> str:
    """Return the class, and its color on a light background for programs that know no style sheet."""
    return f'class="{kind}" fill="{_COLORS[kind][0]}"'


def _size(width: float, height: float) -> str:
    return f'width="{width:.0f}" height="{height:.0f}"'


def _shortened(name: str) -> str:
    return printable(name, _LONGEST_NAME)


def _width(characters: int) -> float:
    return characters * _CHARACTER
