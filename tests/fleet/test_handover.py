"""Step 5 of docs/adopt.md on a real Karmada: policies go from karmada-scheduler to Berthmaster, and back.

The commands are those of the page. Watches keep each state of bindings and Works, so that a test sees every moment.
"""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from e2e.api import RefusedError
from e2e.assets import binary
from e2e.karmada import condition
from e2e.serving import COMMAND
from e2e.test_adopt import parts
from fleet.fleet import Fleet, propagation_policy
from fleet.member import SPACE
from fleet.observer import Recorder
from fleet.real_karmada import SCHEDULER, RealKarmada
from kube_store import JSON

pytestmark = pytest.mark.e2e

LIMIT_S: Final = 300.0
THEIRS: Final = "default-scheduler"
SCHEDULERS: Final = {SCHEDULER, "berthmaster"}
"""As the API server calls who wrote."""
EVERYTHING: Final[JSON] = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "ClusterPropagationPolicy",
    "metadata": {"name": "everything"},
    "spec": {
        "resourceSelectors": [
            {"apiVersion": "apps/v1", "kind": kind, "namespace": SPACE} for kind in ("Deployment", "StatefulSet")
        ],
        "placement": {"clusterAffinity": {"clusterNames": ["m3"]}},
    },
}
"""A policy that would take each workload without another one, and move it."""


@pytest.fixture
def both(fleet: Fleet) -> Iterator[Fleet]:
    """The fleet with both schedulers, without moves, and with ``EVERYTHING``."""
    scheduler = fleet.driver.start_scheduler() if isinstance(fleet.driver, RealKarmada) else None
    if scheduler is None:
        pytest.skip(f"KARMADA_BINARIES names no folder with {SCHEDULER}")
    try:
        fleet.berthmaster(failback={"mode": "Off"}, drain={"mode": "Off"})
        fleet.api.create(EVERYTHING)
        yield fleet
    finally:
        with suppress(RefusedError):
            fleet.api.delete(EVERYTHING)
        fleet.clear()
        scheduler.stop()


def test_policies_change_the_scheduler_and_no_copy_is_touched(both: Fleet, tmp_path: Path):
    """One workload is in its second group although the first one is free again: a new decision would differ."""
    both.drain("m1")
    workloads = {"second": both.run("second", 4, ["m1"], ["m2", "m3"], scheduler=THEIRS)}
    both.until_ready("second", {"m2": 2, "m3": 2})
    both.drain("m1", on=False)
    workloads["copied"] = both.run("copied", 2, ["m1", "m2"], duplicated=True, scheduler=THEIRS)
    workloads["set"] = both.run("set", 2, ["m1"], ["m2"], kind="StatefulSet", scheduler=THEIRS)
    for app in workloads:
        both.settled(app)
    with pytest.raises(RefusedError, match="schedulerName"):
        both.api.patch(propagation_policy("set"), {"spec": {"schedulerName": "berthmaster"}})
    seen = Recorder(both.host)
    do, _, back = parts(5)
    for app, workload in workloads.items():
        both.until("its binding", lambda app=app: app in seen.bindings)
        hand_over(both, seen, tmp_path, workload, do, (app, f"{app}-successor"), "berthmaster")
        scale(both, seen, workload, 6, "berthmaster")
    for app, workload in workloads.items():
        hand_over(both, seen, tmp_path, workload, back, (f"{app}-successor", f"{app}-predecessor"), THEIRS)
        scale(both, seen, workload, 3, SCHEDULER)
    assert not seen.ended, "a watch ended before the test"
    for key, states in [*seen.bindings.items(), *seen.works.items()]:
        assert len({each["metadata"]["uid"] for each in states}) == 1, key
        assert not any(each["gone"] or "deletionTimestamp" in each["metadata"] for each in states), key
    assert {cluster for app, cluster in seen.works if app == "second"} == {"m2", "m3"}
    assert [both.begun(app) for app in workloads] == [0, 0, 0]


def hand_over(
    fleet: Fleet, seen: Recorder, folder: Path, workload: JSON, lines: Sequence[str], names: tuple[str, str], to: str
) -> None:
    """Let a policy take the place of another one, by the commands of the page.

    Args:
        fleet: where both are.
        seen: each state of the binding.
        folder: where the document is written.
        workload: what the policies select.
        lines: the commands of the page.
        names: the name of the old policy, then that of the new one.
        to: the scheduler of the new one.
    """
    app, (old, new) = workload["metadata"]["name"], names
    spec = fleet.api.get(propagation_policy(old))["spec"]
    fields = {key: spec[key] for key in ("resourceSelectors", "placement")} | {"priority": spec.get("priority", 0) + 1}
    named = {} if to == THEIRS else {"schedulerName": to}
    (folder / f"{new.rpartition('-')[2]}.yaml").write_text(
        json.dumps(propagation_policy(new) | {"spec": fields | named})
    )
    clusters, copies, begin = seen.bindings[app][-1]["spec"]["clusters"], pods(fleet, app), len(seen.bindings[app]) - 1
    fleet.note("hand over", app=app, to=to)
    for line in lines:
        if not line.startswith("helm"):
            shell(fleet, folder, line.replace("NAMESPACE", SPACE).replace("NAME", old))

    def decided() -> bool:
        last = seen.bindings[app][-1]
        return last["spec"]["schedulerName"] == to and is_observed(last)

    fleet.until(f"{to} to decide about {app}", decided)
    states = seen.bindings[app][begin:]
    assert all(each["spec"]["clusters"] == clusters for each in states)
    assert all(condition(each)["status"] == "True" for each in states)
    assert writers(states) & SCHEDULERS == {SCHEDULER if to == THEIRS else to}
    claims = [str(each["metadata"].get("annotations")) for each in states]
    assert not any("clusterpropagationpolicy" in each for each in claims)
    assert pods(fleet, app) == copies


def scale(fleet: Fleet, seen: Recorder, workload: JSON, replicas: int, writer: str) -> None:
    """Scale a workload. Only its scheduler may write, and the workload keeps its clusters."""
    app = workload["metadata"]["name"]
    time.sleep(1)  # managed fields have whole seconds: two writes of a scheduler in one second look like one
    begin, before = len(seen.bindings[app]) - 1, set(fleet.assigned(app))
    fleet.edit(workload, replicas=replicas)

    def decided() -> bool:
        last = seen.bindings[app][-1]
        return last["spec"]["replicas"] == replicas and is_observed(last)

    fleet.until("the decision", decided)
    fleet.settled(app)
    states = seen.bindings[app][begin:]
    assert writers(states) & SCHEDULERS == {writer}
    assert all({one["name"] for one in each["spec"]["clusters"]} == before for each in states)


def shell(fleet: Fleet, folder: Path, line: str) -> None:
    tools = [str(Path(each).parent) for each in (binary("kubectl"), COMMAND)]
    environment = {
        "PATH": ":".join([*tools, os.environ["PATH"]]), "HOME": str(folder), "KUBECONFIG": str(fleet.host.kubeconfig)
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    assert "nothing moves" in done.stdout or not line.startswith("berthmaster plan")


def is_observed(binding: JSON) -> bool:
    return bool(binding.get("status", {}).get("schedulerObservedGeneration") == binding["metadata"]["generation"])


def writers(states: Sequence[JSON]) -> set[str]:
    """Return who wrote an object after the first of some states, as its managed fields say."""
    return {
        each["manager"]
        for before, after in pairwise(states)
        for each in after["metadata"]["managedFields"]
        if _write(each) not in map(_write, before["metadata"]["managedFields"])
    }


def _write(fields: JSON) -> tuple[str | None, ...]:
    return tuple(fields.get(key) for key in ("manager", "operation", "subresource", "time"))


def pods(fleet: Fleet, app: str) -> set[str]:
    found = (each for member in fleet.members.values() for each in member.plane.api.list("v1", "Pod", SPACE))
    return {each["metadata"]["uid"] for each in found if each["metadata"]["labels"].get("app") == app}
