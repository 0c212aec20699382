"""The runtime of the controllers on a real API server: election, takeover, events, probes, a clean stop."""

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import copying_controllers
import pytest
from copying_controllers import MARK
from e2e.api import Api
from e2e.control_plane import ControlPlane
from e2e.manifests import unique
from e2e.processes import Processes, wait_for
from e2e.serving import BRIEF, Serving, events_about, start_controllers, wait_for_leader

pytestmark = pytest.mark.e2e

COMMAND: Final = (sys.executable, Path(copying_controllers.__file__))
LIMIT_S: Final = 30.0

Start = Callable[..., Serving]


@pytest.fixture
def start(processes: Processes, control_plane: ControlPlane, namespace: str) -> Iterator[Start]:
    """A function that starts one more process; all of a test elect one leader."""
    started: list[Serving] = []

    def one(*flags: str, **more: Any) -> Serving:
        started.append(start_controllers(processes, control_plane, namespace, *flags, command=COMMAND, **more))
        return started[-1]

    yield one
    for each in started:
        each.process.stop()


def config_map(namespace: str, wants: str = "1") -> dict[str, Any]:
    metadata = {"name": unique("copy"), "namespace": namespace, "labels": {MARK: "true"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"wants": wants}}


def has(api: Api, wanted: dict[str, Any], value: str) -> bool:
    return bool(api.get(wanted)["data"].get("has") == value)


def writes(api: Api, namespace: str, names: list[str]) -> list[str]:
    found = {each["metadata"]["name"]: each["data"] for each in api.list("v1", "ConfigMap", namespace)}
    return [found[name].get("writes", "") for name in names]


def test_a_leader_that_was_paused_ends_and_writes_nothing(api: Api, namespace: str, start: Start):
    both = [start(*BRIEF), start(*BRIEF)]
    leader = wait_for_leader(both, LIMIT_S)
    [standby] = [each for each in both if each is not leader]
    leader.process.ask_to_stop(signal.SIGSTOP)
    wait_for_leader([standby], LIMIT_S)
    wanted = config_map(namespace)
    api.create(wanted)
    wait_for("the copy", lambda: has(api, wanted, "1"), LIMIT_S)
    leader.process.ask_to_stop(signal.SIGCONT)
    assert leader.process.wait(LIMIT_S) == 1
    assert api.get(wanted)["data"]["writes"] == "1"
    assert standby.leading


def test_repeats_of_an_event_become_a_series(api: Api, namespace: str, start: Start):
    leader = start()
    wanted = config_map(namespace)
    api.create(wanted)
    wait_for("the copy", lambda: has(api, wanted, "1"), LIMIT_S)
    name = wanted["metadata"]["name"]
    [event] = wait_for("the event", lambda: events_about(api, namespace, name), LIMIT_S)
    assert event["reason"] == "Copied"
    assert event["action"] == "Copying"
    assert event["reportingController"] == "berthmaster.io/controllers"
    assert event["regarding"]["uid"] == api.get(wanted)["metadata"]["uid"]
    assert "series" not in event

    for value in ("2", "3", "4"):
        api.patch(wanted, {"data": {"wants": value}})
        wait_for("the copy", lambda value=value: has(api, wanted, value), LIMIT_S)
    assert leader.process.stop() == 0, "the last repeats are written at the end"
    [event] = events_about(api, namespace, name)
    assert event["series"]["count"] == 4
    assert event["series"]["lastObservedTime"] > event["eventTime"]
