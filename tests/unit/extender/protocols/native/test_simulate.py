"""The deadline of a simulation."""

import pytest
from builders import cluster, policy
from extender_services import refusing, services_of
from fake_clock import FakeClock
from tables import cases

from berthmaster.model.binding import ObjectReference
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError
from berthmaster.native_api.what_if import (
    AddClusterChange,
    LabelChange,
    PolicyChange,
    RemoveClusterChange,
    SimulateAnswer,
    SimulateRequest,
    UnlabelChange,
    UntaintChange,
    UpChange,
)
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World
from extender.protocols.native.simulate import Simulator
from extender.protocols.problem import Refusal
from extender.protocols.services import Call


@pytest.fixture
def simulate():
    """Simulate changes to a world of 20 unclaimed workloads, on a clock that passes a second each time it is read."""
    clock = FakeClock(tick_s=1.0)
    workloads = [SimulatedWorkload(workload(str(each)), (), None) for each in range(20)]
    services = services_of(World({"a": cluster("a")}, workloads, [policy("kept", scheduler_name="theirs")]), clock)
    simulator = Simulator()

    def ask(*changes, within_s=5):
        call = Call("1", deadline_s=clock.passed_s + within_s)
        return decode_json(SimulateAnswer, simulator.simulate(services, call, SimulateRequest(changes)))

    return ask


def workload(name):
    return ObjectReference("apps/v1", "Deployment", name, "default")


LABEL = LabelChange("a", "x", "y")


def test_a_simulation_stops_at_its_deadline(simulate):
    with refusing(503, "not ready in time"):
        simulate(LABEL, within_s=1)
    assert simulate(LABEL, within_s=100).workloads == 20, "the next simulation can run"


def test_karmada_refuses_another_scheduler(simulate):
    assert simulate(PolicyChange(policy("kept")), within_s=200).workloads == 20, "without a name it stays"
    with pytest.raises(Refusal, match="Karmada refuses a change") as refused:
        simulate(PolicyChange(policy("kept", scheduler_name="berthmaster")), within_s=200)
    assert [each.path for each in refused.value.errors] == ["changes[0].policy.spec.schedulerName"]


@cases(
    ("change", "path"),
    {
        "a label": (LABEL, None),
        "a cluster recovers": (UpChange("a"), None),
        "a cluster joins": (AddClusterChange(cluster("b")), None),
        "a cluster leaves": (RemoveClusterChange("a"), None),
        "a cluster that exists": (AddClusterChange(cluster("a")), "changes[0]"),
        "a cluster without a name": (AddClusterChange(cluster("")), "changes[0].cluster.metadata.name"),
        "a taint that the cluster does not have": (UntaintChange("a", "x"), "changes[0]"),
        "a label that the cluster does not have": (UnlabelChange("a", "x"), "changes[0]"),
        "an unknown cluster": (RemoveClusterChange("x"), "changes[0]"),
    },
)
def test_changes_of_clusters(simulate, change, path):
    if path is None:
        assert simulate(change, within_s=100).workloads == 20
        return
    with pytest.raises(FieldError) as refused:
        simulate(change, within_s=100)
    assert refused.value.path == path
