"""The picture of the failures on the page Resilience. Pure functions of the answer of the extender."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from berthmaster.native_api.why import ImpactView, ResilienceView
from berthmaster.views.heat_map import heat_map

PICTURE: Final = (24, 36)
"""The most rows and columns of the picture, which fits a page of 1,280 pixels. The table has the other failures."""
_WHOLE: Final = ("region", "provider")
"""The failures whose columns are what fails, too. A cluster can be in several zones."""
_OTHERS: Final = "others"


def picture_of(view: ResilienceView, by: str) -> str:
    """Return the picture of the failures as an SVG; empty without failures."""
    if not view.impacts:
        return ""
    impacts, names = (view.impacts, view.clusters) if by not in _WHOLE else _by_domain(view)
    columns = _columns(impacts[: PICTURE[0]], names)
    # The picture counts the columns that it leaves out, so the others follow.
    rest = [name for name in names if name not in set(columns)]
    return heat_map(
        impacts,
        [*columns, *rest],
        limits=(PICTURE[0], len(columns)),
        failures=view.failures,
        noun=by if by in _WHOLE else "cluster",
        embedded=True,
    )


def _by_domain(view: ResilienceView) -> tuple[list[ImpactView], list[str]]:
    """Return the failures with what each region or provider gets as a whole, and the names of these."""
    home = {cluster: each.name for each in view.impacts for cluster in each.clusters}
    impacts = []
    for each in view.impacts:
        arriving: Counter[str] = Counter()
        over: dict[str, set[str]] = {}
        for cluster, count in each.arriving.items():
            arriving[home.get(cluster, _OTHERS)] += count
        for cluster, resources in each.overcommitted.items():
            over.setdefault(home.get(cluster, _OTHERS), set()).update(resources)
        overcommitted = {name: sorted(resources) for name, resources in over.items()}
        impacts.append(replace(each, clusters=(each.name,), arriving=dict(arriving), overcommitted=overcommitted))
    return impacts, sorted({home.get(each, _OTHERS) for each in view.clusters})


def _columns(impacts: Sequence[ImpactView], clusters: Sequence[str]) -> list[str]:
    """Return the clusters that the picture shows, by name: all, or those that these failures concern most."""
    if len(clusters) <= PICTURE[1]:
        return sorted(clusters)
    weight: Counter[str] = Counter()
    for impact in impacts:
        weight.update(impact.arriving)
        # A cluster that gets too much, or is lost, matters more than one that gets many replicas.
        weight.update(dict.fromkeys(impact.overcommitted, 10**9))
        weight.update(dict.fromkeys(impact.clusters, 10**6))
    return sorted(name for name, _ in weight.most_common(PICTURE[1]))
