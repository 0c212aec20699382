"""Bindings that use features whose gates are off are reported once."""

import logging

import pytest
from builders import binding

from berthmaster.controllers.binding_scheduler.ignored_gates import IGNORED_GATES, IgnoredGates
from berthmaster.controllers.settings import GATES
from berthmaster.model.binding import Component, WorkloadAffinityGroups
from berthmaster.runtime.feature_gates import FeatureGates

GROUPED = binding(workload_affinity_groups=WorkloadAffinityGroups("app=x"))
COMPONENTS = binding(components=(Component("driver", 1),))


@pytest.mark.parametrize(
    ("on", "found", "gates"),
    [
        pytest.param({}, [GROUPED, GROUPED], ["WorkloadAffinity"], id="one gate, once"),
        pytest.param({"WorkloadAffinity": True}, [GROUPED], [], id="the gate is on"),
        pytest.param({}, [COMPONENTS, binding()], [], id="a gate that is on by default"),
        pytest.param(
            {"MultiplePodTemplatesScheduling": False},
            [COMPONENTS, GROUPED],
            ["MultiplePodTemplatesScheduling", "WorkloadAffinity"],
            id="two gates",
        ),
    ],
)
def test_ignored_gates(caplog, on, found, gates):
    IGNORED_GATES.clear()
    observer = IgnoredGates(FeatureGates(GATES, on))
    with caplog.at_level(logging.WARNING, "berthmaster.binding_scheduler"):
        for each in found:
            observer.binding_changed(("ns", "web"), None, each)
        observer.binding_changed(("ns", "web"), found[0], None)
    assert [record.getMessage().rpartition(" ")[2] for record in caplog.records] == [f"{gate}=true" for gate in gates]
    assert sorted(sample.labels["gate"] for metric in IGNORED_GATES.collect() for sample in metric.samples) == gates
