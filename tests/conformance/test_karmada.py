"""Recorded decisions of Karmada's scheduler. Each of ours must be identical."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

_RECORDED = {"karmada.jsonl.gz": (400, 2400), "regions.jsonl.gz": (250, 1000)}


def _fleets(file: str) -> list[dict[str, Any]]:
    with gzip.open(Path(__file__).parent / file) as lines:
        return [json.loads(line) for line in lines]


_FLEETS = {file: _fleets(file) for file in _RECORDED}


def _decisions(recorded: dict[str, Any]) -> list[dict[str, Any]]:
    scheduler = Scheduler(Fleet(convert(Cluster, cluster) for cluster in recorded["clusters"]), karmada_profile())
    decided = []
    for raw in recorded["bindings"]:
        binding = convert(Binding, {"spec": raw["spec"], "status": raw["status"]})
        decision = scheduler.schedule(Request.of(binding))
        decided.append({
            "name": raw["name"],
            "affinity": decision.group,
            "clusters": decision.assignment,
            "error": decision.failure.kind.value if decision.failure else None,
        })  # fmt: skip
    return decided


@pytest.mark.parametrize(
    "recorded",
    [pytest.param(fleet, id=f"{file}-{fleet['id']}") for file, fleets in _FLEETS.items() for fleet in fleets],
)
def test_every_decision_is_the_one_of_karmada(recorded):
    assert _decisions(recorded) == recorded["results"]


@pytest.mark.parametrize("file", _RECORDED)
def test_all_recorded_lines_are_checked(file):
    fleets = _FLEETS[file]
    assert (len(fleets), sum(len(fleet["results"]) for fleet in fleets)) == _RECORDED[file]
