"""``berthmaster controllers --shadow`` beside karmada-scheduler: 500 random bindings, and the report about them."""

import json
import random
import subprocess

import pytest
from acceptance.live import access
from acceptance.planes import KARMADA_SCHEDULER
from acceptance.random_bindings import random_binding, random_cluster
from acceptance.scenes import Scene
from acceptance.test_shadow import CLUSTERS, LIMIT_S, is_done
from e2e.processes import Processes
from e2e.serving import COMMAND, START_LIMIT_S, serve
from kube_store import JSON

BINDINGS = 500


def start(processes: Processes) -> str:
    return serve(
        processes, "shadow", (COMMAND, "controllers"), *access(), "--shadow", f"--scheduler-name={KARMADA_SCHEDULER}",
        "--feature-gates=SchedulingOvercommitProtection=false", port=0,
    ).probe_url  # fmt: skip


def report(url: str) -> JSON:
    command = [str(COMMAND), "shadow", "report", f"--server={url}", "-o", "json"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=START_LIMIT_S)  # noqa: S603 - our own
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("plane", ["karmada"], indirect=True)
def test_the_shadow_of_karmada_scheduler_reports_no_difference(scene: Scene, processes: Processes):
    chance, plane = random.Random(7), scene.plane
    shorts = [f"m{number}" for number in range(CLUSTERS)]
    for short in shorts:
        random_cluster(chance, scene, short)
    plane.rest(10)
    url = start(processes)
    for number in range(BINDINGS):
        binding = random_binding(chance, scene, f"w{number}", shorts)
        binding["spec"]["schedulerName"] = KARMADA_SCHEDULER
        scene.make(binding)

    def own() -> list[JSON]:
        return [each for each in plane.all("ResourceBinding") if each["metadata"]["namespace"] == plane.namespace]

    plane.wait("all bindings are scheduled", lambda: all(map(is_done, own())), LIMIT_S)
    plane.wait("the shadow has compared them", lambda: report(url)["decisions"]["same"] >= BINDINGS, LIMIT_S)
    found = report(url)
    assert found["bindings"]["different"] == 0, found
