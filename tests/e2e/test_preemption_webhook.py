"""Preemption with our webhook, which records the priority drops that the controller handles."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from e2e.api import Api
from e2e.control_plane import ControlPlane
from e2e.controllers_process import events_about
from e2e.manifests import JSON, policies_of_every_kind, unique
from e2e.preempting import CPP, DROP, LIMIT_S, PP, Run, claim, cleared, deployment, policy, taken
from e2e.processes import Processes, wait_for
from e2e.registration import registered
from e2e.service import KARMADA_HOOKS, Service

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def drop_handler() -> str:
    """The controller's user, as configured in the webhook."""
    return unique("drop-handler")


@pytest.fixture(scope="module")
def webhook(
    control_plane: ControlPlane, processes: Processes, drop_handler: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """Our webhook in standalone mode: it adds permanent ids and records drops."""
    samples = [
        each for kind, each in policies_of_every_kind(control_plane.new_namespace()).items() if kind in {PP, CPP}
    ]
    with closing(Service(processes, tmp_path_factory.mktemp("webhook"), "standalone")) as service:
        service.start(f"--drop-handler={drop_handler}")
        with registered(control_plane, KARMADA_HOOKS, service.url, service.authority.certificate, samples):
            yield service


@pytest.mark.usefixtures("webhook")
def test_a_drop_that_our_webhook_records_is_handled_and_removed(
    api: Api, namespace: str, preempting: Run, drop_handler: str
):
    web = deployment(namespace)
    api.create(web)
    holder = api.create(policy(PP, namespace, web, 9, always=False)).object
    other = api.create(policy(PP, namespace, web, 9)).object
    claim(api, web, holder)
    running = preempting(user=drop_handler)
    fallen = api.patch(holder, {"spec": {"priority": 3}}).object
    assert fallen["metadata"]["annotations"][DROP] == '{"from": 9, "to": 3}'
    taken(api, web, other)
    cleared(api, holder)
    assert running.measure("policy_preemption_total", result="success") == 1


@pytest.mark.usefixtures("webhook")
def test_a_record_that_the_controller_may_not_remove_is_reported(api: Api, namespace: str, preempting: Run):
    web = deployment(namespace)
    api.create(web)
    holder = api.create(policy(PP, namespace, web, 9, always=False)).object
    other = api.create(policy(PP, namespace, web, 7)).object
    claim(api, web, holder)
    preempting()
    api.patch(holder, {"spec": {"priority": 3}})
    taken(api, web, other)

    def recorded() -> list[JSON]:
        about = events_about(api, namespace, holder["metadata"]["name"])
        return [each for each in about if each["reason"] == "PriorityDropNotCleared"]

    (event,) = wait_for("the event", recorded, LIMIT_S)
    assert "--drop-handler" in event["note"]
    assert DROP in api.get(holder)["metadata"]["annotations"]
