"""What the form of the page What if shows: pure functions of the fleet and of a question."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from berthmaster.native_api.fleet import FleetCluster
from berthmaster.simulation.plan_answer import Switch
from console.question import SEPARATORS, WhatIfQuestion
from console.question_reading import FormProblem

SWITCHES: Final = {"auto": "as configured", "on": "assumed on", "off": "assumed off"}
MAX_BOXES: Final = 400
"""The most regions, providers, zones and clusters that the form lists together. Other names are written."""


class ClusterBox(NamedTuple):
    """A cluster that the visitor can choose."""

    name: str
    note: str
    checked: bool


@dataclass(frozen=True, slots=True)
class RegionBox:
    """The clusters of a region."""

    name: str
    clusters: Sequence[ClusterBox]

    @property
    def checked(self) -> int:
        """The number of clusters that the question loses."""
        return sum(each.checked for each in self.clusters)


class DomainBox(NamedTuple):
    """A region, zone or provider that the visitor can choose as a whole."""

    word: str
    clusters: int
    checked: bool


@dataclass(frozen=True, slots=True)
class FormView:
    """The form.

    Attributes:
        regions: the clusters to choose from; empty for a large fleet.
        more: the names of clusters to lose that are not among the boxes.
        extended: whether the question uses fields that are closed at first.
    """

    switches: ClassVar = SWITCHES

    regions: Sequence[RegionBox]
    domains: Mapping[str, Sequence[DomainBox]]
    more: str
    texts: Mapping[str, str]
    problems: Sequence[FormProblem]
    extended: bool
    failover: Switch
    preemption: Switch

    def problems_of(self, name: str) -> Sequence[FormProblem]:
        return [each for each in self.problems if each.field == name]


def form_view(
    question: WhatIfQuestion, clusters: Sequence[FleetCluster], problems: Sequence[FormProblem] = ()
) -> FormView:
    """Return the form with the texts of a question. Nothing of a wrong question is lost."""
    lost = set(question.lose)
    every = [DomainBox(word, len(names), word in lost) for word, names in domains_of(clusters).items()]
    domains: dict[str, list[DomainBox]] = {}
    left = MAX_BOXES
    for kind in _DOMAINS:
        found = [each for each in every if each.word.startswith(f"{kind}=")]
        domains[kind] = found if len(found) <= left else []
        left -= len(domains[kind])
    boxes = _regions(clusters, lost) if len(clusters) <= left else []
    listed = {each.name for region in boxes for each in region.clusters}
    listed |= {each.word for found in domains.values() for each in found}
    lines = {name: "\n".join(getattr(question, name)) for name in _LINES}
    return FormView(
        regions=boxes,
        domains=domains,
        more=" ".join(name for name in question.lose if name not in listed),
        texts={**lines, "policies": question.policies},
        problems=problems,
        extended=any(lines[name] for name in _EXTENDED),
        failover=question.failover,
        preemption=question.preemption,
    )


_EXTENDED: Final = ("recover", "leave", "labels", "deleted")
_DOMAINS: Final = ("region", "provider", "zone")
_LINES: Final = ("taints", "scales", *_EXTENDED)


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


def _regions(clusters: Sequence[FleetCluster], lost: set[str]) -> list[RegionBox]:
    regions: dict[str, list[ClusterBox]] = defaultdict(list)
    for each in clusters:
        regions[each.region].append(ClusterBox(each.name, _note(each), each.name in lost))
    # Clusters without a region come last.
    ordered = sorted(regions, key=lambda name: (not name, name))
    return [RegionBox(name, regions[name]) for name in ordered]


def _note(cluster: FleetCluster) -> str:
    if cluster.deleting:
        return "leaving"
    if not cluster.ready:
        return "not ready"
    return "draining" if cluster.draining else ""
