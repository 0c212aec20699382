"""Recorded decisions of KubeAdmiral's scheduler. Each of ours must be identical."""

import gzip
import json
from functools import cache
from pathlib import Path

import pytest
from kubeadmiral_builders import unit_from

from berthmaster.model.decode import convert
from berthmaster.model.kubeadmiral.clusters import FederatedCluster, as_cluster
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral.profile import kubeadmiral_profile
from berthmaster.scheduling.kubeadmiral.unit import placed, request_of
from berthmaster.scheduling.scheduler import Scheduler

VECTORS = Path(__file__).with_name("kubeadmiral.jsonl.gz")
LINES = 1500
CHUNK = 150
PROFILE = kubeadmiral_profile()


@cache
def recorded():
    with gzip.open(VECTORS) as file:
        return [json.loads(line) for line in file]


def decided(line, clusters):
    unit = unit_from(line)
    fleet = Fleet(as_cluster(convert(FederatedCluster, each)) for each in clusters)
    decision = Scheduler(fleet, PROFILE).schedule(request_of(unit))
    return {
        "clusters": placed(unit, decision),
        "error": decision.failure.kind.value if decision.failure is not None else None,
    }


def test_all_recorded_lines_are_checked():
    assert len(recorded()) == LINES
    assert len({line["id"] for line in recorded()}) == LINES


@pytest.mark.parametrize("first", range(0, LINES, CHUNK), ids=lambda first: f"lines from {first}")
def test_every_decision_is_the_one_of_kubeadmiral(first):
    lines = recorded()[first : first + CHUNK]
    answers = {line["id"]: decided(line, line["clusters"]) for line in lines}
    assert answers == {line["id"]: line["result"] for line in lines}


@pytest.mark.parametrize("first", [0, 750], ids=lambda first: f"lines from {first}")
def test_the_order_of_clusters_has_no_effect(first):
    lines = recorded()[first : first + CHUNK]
    answers = {line["id"]: decided(line, line["clusters"][::-1]) for line in lines}
    assert answers == {line["id"]: line["result"] for line in lines}
