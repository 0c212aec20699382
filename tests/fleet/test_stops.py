"""What stops a move, on members that run pods: one drain, with a workload for each cause."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

import pytest
from e2e.api import RefusedError
from e2e.serving import COMMAND
from fleet.chaos import JOBS_MOVE
from fleet.fleet import Fleet
from fleet.member import SPACE, is_finished, volume
from karmada_model.replicas import RETAINED
from kube_store import JSON

from berthmaster.model.move_refusal import Cause

pytestmark = pytest.mark.e2e

BREAK: Final = "BreakBeforeMake"
REPLICAS: Final = 2
QUIET_S: Final = 20.0
CLAIM: Final[JSON] = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local",
                      "resources": {"requests": {"storage": "1Gi"}}}  # fmt: skip
MOUNT: Final[JSON] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}]}


class Stop(NamedTuple):
    """A workload that stays.

    Attributes:
        app: its name.
        cause: why it stays.
        run: how it is created, beside ``REPLICAS`` and the groups m1, then m2.
        policy: what then changes in its policy.
        spec: what then changes in its spec.
        mend: what lets it leave; None if nothing does.
        groups: its groups of clusters.
    """

    app: str
    cause: Cause
    run: JSON
    policy: JSON | None = None
    spec: JSON | None = None
    mend: Callable[[Fleet, JSON], object] | None = None
    groups: tuple[tuple[str, ...], ...] = (("m1",), ("m2",))


def removing(*fields: str) -> Callable[[Fleet, JSON], object]:
    return lambda fleet, workload: fleet.amend(workload["metadata"]["name"], **dict.fromkeys(fields))


def unpause(fleet: Fleet, workload: JSON) -> None:
    fleet.edit(workload, paused=False)


def may_be_lost(fleet: Fleet, workload: JSON) -> None:
    fleet.annotate(workload["metadata"]["name"], move_volumes="MayBeLost")


def let_karmada_scale(fleet: Fleet, workload: JSON) -> None:
    fleet.api.patch(workload, {"metadata": {"labels": dict.fromkeys(RETAINED)}})


ALL: Final[JSON] = {"suspension": {"dispatching": True}}
TARGET: Final[JSON] = {"suspension": {"dispatchingOnClusters": {"clusterNames": ["m2"]}}}
SOURCE: Final[JSON] = {"suspension": {"dispatchingOnClusters": {"clusterNames": ["m1"]}}}
KEEPS: Final[JSON] = {"preserveResourcesOnDeletion": True}
_DECISION: Final[JSON] = {"decisionConditions": {"tolerationSeconds": 60}}
NEVER: Final[JSON] = {"propagateDeps": True, "failover": {"application": {**_DECISION, "purgeMode": "Never"}}}
STATEFUL: Final[JSON] = {"kind": "StatefulSet"}
OWN_CLAIMS: Final[JSON] = {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM}]}
STOPS: Final = (
    Stop("suspended", Cause.SUSPENDED, {}, ALL, mend=removing("suspension")),
    Stop("suspendedbreak", Cause.SUSPENDED, {"strategy": BREAK}, ALL, mend=removing("suspension")),
    Stop("target", Cause.SUSPENDED, {"strategy": BREAK}, TARGET, mend=removing("suspension")),
    Stop("source", Cause.SUSPENDED, {}, SOURCE, mend=removing("suspension")),
    Stop("preserved", Cause.KEEPS_OLD_COPY, {"strategy": BREAK, **STATEFUL}, KEEPS,
         mend=removing("preserveResourcesOnDeletion")),
    Stop("never", Cause.KEEPS_OLD_COPY, {"strategy": BREAK}, NEVER, mend=removing("failover")),
    Stop("paused", Cause.TEMPLATE_PAUSED, {}, spec={"paused": True}, mend=unpause),
    Stop("pausedbreak", Cause.TEMPLATE_PAUSED, {"strategy": BREAK}, spec={"paused": True}, mend=unpause),
    Stop("mounted", Cause.VOLUMES, {"pod_spec": MOUNT, "policy_spec": {"propagateDeps": True}}, mend=may_be_lost),
    Stop("stored", Cause.VOLUMES, {**STATEFUL, "more": OWN_CLAIMS}, mend=may_be_lost),
    Stop("divided", Cause.JOB_DIVIDED, {"kind": "Job", "more": {"completions": REPLICAS}}),
    Stop("finished", Cause.JOB_FINISHED, {"kind": "Job", "more": {"completions": REPLICAS}}),
    Stop("retained", Cause.REPLICAS_RETAINED, {"labels": RETAINED}, mend=let_karmada_scale, groups=(("m1", "m2"),)),
)  # fmt: skip
FINISHES: Final = "finished"


@pytest.fixture
def stored(fleet: Fleet) -> Iterator[Fleet]:
    """The fleet with volumes in each member, and a claim beside the workloads."""
    if not fleet.driver.real:
        pytest.skip("the agents of the model know nothing of suspension, volumes and finished Jobs")
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "disk", "namespace": SPACE}}
    for member in fleet.members.values():
        for number in range(REPLICAS + 1):
            member.plane.api.create(volume(f"v{number}"))
    fleet.api.create({**claim, "spec": CLAIM})
    try:
        yield fleet
    finally:
        with suppress(RefusedError):
            fleet.api.delete(claim)


def test_a_workload_that_cannot_move_stays_and_is_named(stored: Fleet):
    """Each has its cause in its record, and ``drain --dry-run`` says the same before. What a person mends, moves."""
    fleet, workloads = stored, dict[str, JSON]()
    fleet.berthmaster(rules=[JOBS_MOVE])
    for each in STOPS:
        workloads[each.app] = fleet.run(each.app, REPLICAS, *each.groups, **each.run)
    for each in STOPS:
        fleet.until(f"{each.app} runs", lambda app=each.app: sum(fleet.ready(app).values()) == REPLICAS)
    before = {each.app: fleet.ready(each.app) for each in STOPS if each.app != FINISHES}
    fleet.finish(FINISHES, "m1")
    for each in STOPS:
        if each.policy is not None:
            fleet.amend(each.app, **each.policy)
        if each.spec is not None:
            fleet.edit(workloads[each.app], **each.spec)
    fleet.until("the Job has finished", lambda: is_finished(fleet.api.get(workloads[FINISHES])))
    time.sleep(5)
    planned = _dry_run(fleet, "m1")
    assert {app: row["state"] for app, row in planned.items()} == dict.fromkeys(workloads, "waiting"), planned
    fleet.drain("m1")
    for each in STOPS:
        cause = each.cause.value
        fleet.until(
            f"{each.app} names {cause}", lambda app=each.app, cause=cause: fleet.move(app).get("cause") == cause
        )
    time.sleep(QUIET_S)
    assert {app: fleet.move(app)["message"] for app in workloads} == {
        app: row["message"] for app, row in planned.items()
    }
    assert {app: fleet.ready(app) for app in before} == before
    for each in STOPS:
        if each.mend is not None:
            each.mend(fleet, workloads[each.app])
    for each in STOPS:
        if each.mend is not None:
            fleet.until_ready(each.app, {"m2": REPLICAS}, 300)
    for each in STOPS:
        fleet.until("the end of its move", lambda app=each.app: not fleet.moves(app))
        assert not each.run.get("strategy") or not fleet.twice(each.app), each.app


def _dry_run(fleet: Fleet, *clusters: str) -> dict[str, Any]:
    """Return the rows of ``berthmaster drain --dry-run`` by the name of the workload."""
    command = [COMMAND, "drain", *clusters, "--dry-run", "-o", "json", f"--kubeconfig={fleet.host.kubeconfig}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 1), done.stderr
    return {row["workload"].rpartition("/")[2]: row for row in json.loads(done.stdout)["left"]}
