"""What the form of the page What if lists to choose from: clusters by region, and whole domains. Pure functions."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from berthmaster.native_api.fleet import FleetCluster
from console.question import SEPARATORS, WhatIfQuestion

_DOMAINS: Final = ("region", "provider", "zone")
MAX_BOXES: Final = 400
"""The most regions, providers, zones and clusters that the form lists together. Other names are written."""


class FormBoxes(NamedTuple):
    """What the form lists to choose from.

    Attributes:
        regions: the clusters by region, each with a note; empty for a large fleet.
        domains: whole regions, zones and providers, with the number of their clusters, by the kind.
        more: the names of clusters to lose that are not among the boxes.
    """

    regions: Mapping[str, Sequence[tuple[str, str]]]
    domains: Mapping[str, Mapping[str, int]]
    more: str


def form_boxes(question: WhatIfQuestion, clusters: Sequence[FleetCluster]) -> FormBoxes:
    """Return the boxes of the form. Nothing of a wrong question is lost."""
    every = {word: len(names) for word, names in domains_of(clusters).items()}
    domains: dict[str, dict[str, int]] = {}
    left = MAX_BOXES
    for kind in _DOMAINS:
        found = {word: count for word, count in every.items() if word.startswith(f"{kind}=")}
        domains[kind] = found if len(found) <= left else {}
        left -= len(domains[kind])
    regions = _regions(clusters) if len(clusters) <= left else {}
    listed = {name for found in regions.values() for name, _ in found}.union(*domains.values())
    return FormBoxes(regions, domains, " ".join(name for name in question.lose if name not in listed))


def domains_of(clusters: Sequence[FleetCluster]) -> Mapping[str, Sequence[str]]:
    """Return the clusters of each region, zone and provider by words such as ``region=eu-west-1``.

    A domain whose name a question cannot carry, because it has a space or a comma, is left out.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for each in clusters:
        for kind, names in zip(_DOMAINS, ((each.region,), (each.provider,), each.zones), strict=True):
            for name in dict.fromkeys(names):
                if name and not SEPARATORS.search(name):
                    found[f"{kind}={name}"].append(each.name)
    return dict(sorted(found.items()))


def _regions(clusters: Sequence[FleetCluster]) -> dict[str, list[tuple[str, str]]]:
    regions: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for each in clusters:
        regions[each.region].append((each.name, _note(each)))
    # Clusters without a region come last.
    return dict(sorted(regions.items(), key=lambda item: (not item[0], item[0])))


def _note(cluster: FleetCluster) -> str:
    if cluster.deleting:
        return "leaving"
    if not cluster.ready:
        return "not ready"
    return "draining" if cluster.draining else ""
