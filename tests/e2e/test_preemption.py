"""Preemption on a real API server, by a process with only the documented rights."""

from collections.abc import Iterator

import pytest
from e2e.api import Api
from e2e.control_plane import ControlPlane
from e2e.controllers_process import Controllers, events_about
from e2e.preempting import (
    LIMIT_S,
    PP,
    claim,
    deployment,
    policy,
    start,
    taken,
)
from e2e.processes import Processes, wait_for

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def controllers(processes: Processes, control_plane: ControlPlane) -> Iterator[Controllers]:
    """Start one process for all tests that do not start or stop it themselves."""
    running = start(processes, control_plane)
    yield running
    assert running.measure("berthmaster_controllers_reconciles_total", result="crash") == 0
    running.process.stop()


@pytest.mark.usefixtures("controllers")
def test_a_takeover_has_events_on_both_policies_and_the_resource(api: Api, namespace: str):
    web = deployment(namespace)
    api.create(web)
    weak, strong = policy(PP, namespace, web, 1, always=False), policy(PP, namespace, web, 2)
    made = [api.create(weak).object, claim(api, web, weak), api.create(strong).object]
    taken(api, web, strong)
    notes = set()
    for each in made:
        name = each["metadata"]["name"]
        (event,) = wait_for(f"the event of {name}", lambda name=name: events_about(api, namespace, name), LIMIT_S)
        assert (event["type"], event["reason"]) == ("Normal", "PreemptPolicySucceed")
        assert event["regarding"]["uid"] == each["metadata"]["uid"], "else kubectl describe does not show it"
        notes.add(event["note"])
    (note,) = notes
    assert all(each["metadata"]["name"] in note for each in made)
    assert "priority" in note
