"""The way of docs/switch-over.md from one scheduler to the other moves nothing, although another policy matches."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from fleet_dump import DIVIDED, members, stored_binding, stored_policy, stored_template

from berthmaster_cli.main import main

PAGE = (Path(__file__).parents[3] / "docs" / "switch-over.md").read_text()
OLD = stored_policy("web", to=["a"], placement=DIVIDED, priority=2, schedulerName="default-scheduler")
WEB = stored_template(held_by=OLD)
EVERYTHING = stored_policy("all", to=["b"], placement=DIVIDED, kind="ClusterPropagationPolicy")
FLEET = [*members("a", "b"), OLD, EVERYTHING, WEB, stored_binding(WEB, {"a": 2}, policy=OLD)]
SUCCESSOR = stored_policy("next", to=["a"], placement=DIVIDED, new=True, priority=3, schedulerName="berthmaster")
HANDED_OVER = {**OLD, "spec": {**OLD["spec"], "schedulerName": "berthmaster"}}


def planned(folder, words, changed=()):
    dump, change = folder / "fleet.json", folder / "successor.yaml"
    for path, objects in ((dump, FLEET), (change, changed)):
        path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": list(objects)}))
    line = " ".join(words).replace("successor.yaml", str(change))
    return CliRunner().invoke(main, ["plan", "--against", str(dump), *line.split()])


def test_a_successor_takes_the_workloads_and_nothing_moves(tmp_path):
    section = PAGE.partition("## Switch over")[2].partition("## Switch back")[0]
    (line,) = re.findall(r"`berthmaster plan (.*)`", section)
    words = line.replace("NAMESPACE", "default").replace("NAME", "web").split()
    result = planned(tmp_path, words, [SUCCESSOR])
    assert (result.exit_code, "nothing moves" in result.stdout) == (0, True), result.output
    assert "PropagationPolicy default/next" in result.stdout


@pytest.mark.parametrize(
    ("words", "changed", "code", "message"),
    [
        pytest.param(["--delete", "default/pp/web", "--fail-on", "moved"], [], 3, "1 workload would move",
            id="without a successor the policy for everything takes the workloads"),
        pytest.param(["-f", "successor.yaml"], [HANDED_OVER], 1,
            "spec.schedulerName: Karmada refuses a change from 'default-scheduler' to 'berthmaster'; create a policy "
            "with another name, then delete this one", id="a changed scheduler is refused"),
    ],
)  # fmt: skip
def test_other_ways_are_none(tmp_path, words, changed, code, message):
    result = planned(tmp_path, words, changed)
    assert (result.exit_code, message in result.stderr) == (code, True), result.output
