"""The drawing of the moves of a plan: which clusters workloads leave, and for which ones, as SVG."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Final, NamedTuple

from berthmaster.model.errors import printable
from berthmaster.simulation.plan_answer import PlannedMove

TITLE: Final = "Which clusters replicas leave, and where they go"
_COLORS: Final = {"move": "#3b6ea8", "new": "#2e7d4f", "gone": "#b3261e"}
_NEW: Final = "new"
_GONE: Final = "gone"
_OTHERS: Final = "others"
_MAX_CLUSTERS: Final = 24
"""The largest number of clusters on a side. The ones with the least become one."""
_WIDTH: Final = 960
_LEFT: Final = 250
_RIGHT: Final = 710
_BAR: Final = 10
_GAP: Final = 14
_SCALE: Final = 320
"""The height of all bars of a side without gaps, in pixels."""
_MIN_BAR: Final = 3.0
_NAME_LENGTH: Final = 32
_CHARACTER: Final = 7
"""The width of a character of a name, in pixels, as a proportional font has it at most on average."""
_NUMBER: Final = 64
"""The width of the number behind a name, with the space around it, in pixels."""

Flow = tuple[str, str]
"""The cluster that something leaves, and the one that it goes to; empty for neither."""


class _Bar(NamedTuple):
    """The bar of a cluster: its upper end and its height."""

    top: float
    height: float


def flows(moves: Iterable[PlannedMove]) -> Counter[Flow]:
    """Return how much goes from which cluster to which: replicas, or copies of workloads without replicas.

    It is not known which replica becomes which. What leaves is paired with what arrives in the order of cluster names.
    What remains is new (from the empty name) or goes away (to the empty name).
    """
    found: Counter[Flow] = Counter()
    for move in moves:
        leaving, arriving = _amounts(move)
        for source, target, amount in _paired(leaving, arriving):
            found[source, target] += amount
    return found


def flow_rows(moves: Iterable[PlannedMove]) -> list[tuple[str, str, int]]:
    """Return what the drawing shows as rows, the largest first: from, to, and the amount."""
    found = _limited(flows(moves))
    rows = [(_label(source, _NEW), _label(target, _GONE), amount) for (source, target), amount in found.items()]
    return sorted(rows, key=lambda row: (-row[2], row[0], row[1]))


def drawing(moves: Iterable[PlannedMove]) -> str:
    """Return the drawing of moves as an SVG element; empty if nothing moves.

    It needs no style sheet. The classes ``flows``, ``node``, ``move``, ``new`` and ``gone`` let a page choose other
    colors. It has no style attribute, which a content security policy may refuse.
    """
    found = _limited(flows(moves))
    if not found:
        return ""
    left = _bars(_sums(found, 0))
    right = _bars(_sums(found, 1))
    height = max(_bottom(left), _bottom(right)) + _GAP
    parts = [
        f'<svg class="flows" viewBox="{_view(found)} {height:.0f}" role="img" aria-label="{TITLE}" font-size="12">',
        *_links(found, left, right),
        *_nodes(left, _sums(found, 0), end=True),
        *_nodes(right, _sums(found, 1), end=False),
        "</svg>",
    ]
    return "\n".join(parts)


def _amounts(move: PlannedMove) -> tuple[Counter[str], Counter[str]]:
    leaving: Counter[str] = Counter()
    arriving: Counter[str] = Counter()
    replicated = any(move.before.values()) or any(move.after.values())
    for name, (then, now) in move.moves.items():
        change = (now or 0) - (then or 0) if replicated else (now is not None) - (then is not None)
        (arriving if change > 0 else leaving)[name] += abs(change)
    return +leaving, +arriving


def _paired(leaving: Mapping[str, int], arriving: Mapping[str, int]) -> Iterator[tuple[str, str, int]]:
    sources, targets = sorted(leaving.items()), sorted(arriving.items())
    while sources and targets:
        (source, left), (target, wanted) = sources.pop(0), targets.pop(0)
        amount = min(left, wanted)
        yield source, target, amount
        if left > amount:
            sources.insert(0, (source, left - amount))
        if wanted > amount:
            targets.insert(0, (target, wanted - amount))
    yield from ((source, "", amount) for source, amount in sources)
    yield from (("", target, amount) for target, amount in targets)


def _sums(found: Mapping[Flow, int], side: int) -> dict[str, int]:
    """Return the sums of a side, the clusters by name and the others last."""
    sums: Counter[str] = Counter()
    for flow, amount in found.items():
        sums[flow[side]] += amount
    return dict(sorted(sums.items(), key=lambda pair: (pair[0] in {"", _OTHERS}, pair[0])))


def _limited(found: Mapping[Flow, int]) -> Counter[Flow]:
    """Join the clusters with the least into one, so that the drawing stays readable."""
    kept = []
    for side in (0, 1):
        sums = {name: amount for name, amount in _sums(found, side).items() if name}
        largest = sorted(sums, key=lambda name: (-sums[name], name))
        few = len(largest) <= _MAX_CLUSTERS
        kept.append({"", *(largest if few else largest[: _MAX_CLUSTERS - 1])})
    joined: Counter[Flow] = Counter()
    for (source, target), amount in found.items():
        joined[source if source in kept[0] else _OTHERS, target if target in kept[1] else _OTHERS] += amount
    return joined


def _view(found: Mapping[Flow, int]) -> str:
    """Return the left edge, the upper edge and the width of the drawing: no wider than the names need."""
    names = [[_shown(name, instead) for name in _sums(found, side)] for side, instead in ((0, _NEW), (1, _GONE))]
    left, right = (max(map(len, side)) * _CHARACTER + _NUMBER for side in names)
    start = max(0.0, _LEFT - left)
    return f"{start:.0f} 0 {min(_WIDTH, _RIGHT + _BAR + right) - start:.0f}"


def _bars(sums: Mapping[str, int]) -> dict[str, _Bar]:
    total, top, bars = sum(sums.values()), float(_GAP), {}
    for name, amount in sums.items():
        height = max(_MIN_BAR, _SCALE * amount / total)
        bars[name] = _Bar(top, height)
        top += height + _GAP
    return bars


def _bottom(bars: Mapping[str, _Bar]) -> float:
    return max(each.top + each.height for each in bars.values())


def _links(found: Mapping[Flow, int], left: Mapping[str, _Bar], right: Mapping[str, _Bar]) -> Iterator[str]:
    """Yield a curve for each flow, as wide as the bars say at its two ends."""
    sums = _sums(found, 0), _sums(found, 1)
    used: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    order = tuple({name: number for number, name in enumerate(each)} for each in sums)
    for (source, target), amount in sorted(
        found.items(), key=lambda pair: (order[0][pair[0][0]], order[1][pair[0][1]])
    ):
        a, b = (
            _part(left[source], used[0][source], amount, sums[0][source]),
            _part(right[target], used[1][target], amount, sums[1][target]),
        )
        used[0][source] += amount
        used[1][target] += amount
        kind = "new" if not source else "gone" if not target else "move"
        title = f"{_label(source, _NEW)} to {_label(target, _GONE)}: {amount:,}"
        shape = f'class="{kind}" fill="{_COLORS[kind]}" fill-opacity=".4" d="{_ribbon(a, b)}"'
        yield f"<path {shape}><title>{escape(title)}</title></path>"


def _part(bar: _Bar, used: int, amount: int, total: int) -> _Bar:
    return _Bar(bar.top + bar.height * used / total, bar.height * amount / total)


def _ribbon(left: _Bar, right: _Bar) -> str:
    x0, x1 = _LEFT + _BAR, _RIGHT
    middle = (x0 + x1) / 2
    upper = f"M{x0} {left.top:.1f}C{middle:.0f} {left.top:.1f} {middle:.0f} {right.top:.1f} {x1} {right.top:.1f}"
    low_left, low_right = left.top + left.height, right.top + right.height
    lower = f"L{x1} {low_right:.1f}C{middle:.0f} {low_right:.1f} {middle:.0f} {low_left:.1f} {x0} {low_left:.1f}Z"
    return upper + lower


def _nodes(bars: Mapping[str, _Bar], sums: Mapping[str, int], *, end: bool) -> Iterator[str]:
    """Yield the bar and the name of each cluster of a side; ``end``: the names are left of the bars."""
    x, anchor = (_LEFT, "end") if end else (_RIGHT, "start")
    at = x - 8 if end else x + _BAR + 8
    instead = _NEW if end else _GONE
    for name, bar in bars.items():
        label, shown = _label(name, instead), _shown(name, instead)
        middle = bar.top + bar.height / 2 + 4
        place = f'x="{x}" y="{bar.top:.1f}" width="{_BAR}" height="{bar.height:.1f}"'
        yield f'<rect class="node" {place} fill="currentColor" fill-opacity=".6"/>'
        yield (
            f'<text x="{at}" y="{middle:.1f}" text-anchor="{anchor}" fill="currentColor">'
            f"{escape(shown)}: {sums[name]:,}<title>{escape(label)}</title></text>"
        )


def _shown(name: str, instead: str) -> str:
    label = _label(name, instead)
    return label if len(label) <= _NAME_LENGTH else f"{label[: _NAME_LENGTH - 1]}…"


def _label(name: str, instead: str) -> str:
    return printable(name) if name else instead
