"""Preemption that no running controller observed, on a real API server. Each test starts its own processes."""

import pytest
from e2e import karmada
from e2e.api import Api
from e2e.control_plane import ControlPlane
from e2e.controllers_process import BRIEF, start_controllers, wait_for_leader
from e2e.preempting import CPP, DROP, LIMIT_S, PP, Run, claim, cleared, deployment, kept, policy, remove, taken
from e2e.processes import Processes

pytestmark = pytest.mark.e2e


def test_without_the_feature_gate_nothing_is_taken_over(
    processes: Processes, control_plane: ControlPlane, api: Api, namespace: str
):
    web = deployment(namespace)
    api.create(web)
    weak, strong = policy(PP, namespace, web, 1, always=False), policy(PP, namespace, web, 2)
    api.create(weak)
    before = claim(api, web, weak)
    api.create(strong)
    karmada.install_clusters(api)  # the binding scheduler still runs and needs them
    running = start_controllers(processes, control_plane, control_plane.new_namespace())
    wait_for_leader([running], LIMIT_S)
    kept(api, web, before)
    running.process.stop()


@pytest.mark.parametrize(
    ("kind", "priority"),
    [pytest.param(CPP, 9, id="at the top of the range"), pytest.param(PP, 3, id="at its bottom")],
)
def test_a_drop_recorded_while_no_controller_ran_is_handled(
    api: Api, namespace: str, preempting: Run, kind: str, priority: int
):
    web = deployment(namespace)
    api.create(web)
    fallen = policy(kind, namespace, web, 3, always=False, drop='{"from": 9, "to": 3}')
    other = policy(kind, namespace, web, priority)
    api.create(fallen)
    api.create(other)
    before = claim(api, web, fallen)
    preempting()
    cleared(api, fallen)
    if priority > 3:
        taken(api, web, other)
    else:
        kept(api, web, before)
    remove(api, fallen, other)


def test_a_drop_is_handled_after_a_restart(api: Api, namespace: str, preempting: Run):
    """The process is killed after it recorded the drop; the next process completes it."""
    web = deployment(namespace)
    api.create(web)
    fallen, other = policy(PP, namespace, web, 9, always=False), policy(PP, namespace, web, 5)
    api.create(fallen)
    api.create(other)
    claim(api, web, fallen)
    first = preempting(*BRIEF)
    first.process.kill()
    api.patch(fallen, {"metadata": {"annotations": {DROP: '{"from": 9, "to": 3}'}}, "spec": {"priority": 3}})
    preempting()
    taken(api, web, other)
    cleared(api, fallen)
