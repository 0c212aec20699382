"""The Python API gives the answers of the commands, and the examples of docs/api.md do what the page says."""

import json
import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from karmada_plane import policy, selector, shop
from kube_over_http import KubeOverHTTP
from tables import cases

from berthmaster_cli import api
from berthmaster_cli.answers import API_VERSION
from berthmaster_cli.main import main

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "api.md").read_text()
EXAMPLE = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
FILES = ("examples/karmada/clusters.yaml", "examples/karmada/groups", "examples/karmada/nowhere")


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def printed(*words):
    done = CliRunner().invoke(main, [*words, "-o", "json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found.pop("apiVersion") == API_VERSION
    assert found.pop("kind")
    return found


def as_json(answer):
    return json.loads(msgspec.json.encode(answer))


def test_the_examples_of_the_page_print_what_it_shows(capsys):
    names = {}
    shown = EXAMPLE.findall(PAGE)
    for code, output in shown:
        exec(code, names)  # noqa: S102 - the page of the repository
        assert capsys.readouterr().out == output
    assert len(shown) == 3


@pytest.mark.parametrize("workload", ["deploy/nginx", "default/Deployment/trainer"])
def test_a_decision_is_that_of_explain(workload):
    found = as_json(api.load_fleet(*FILES, plugins="*,-ClusterLocality").decide(workload))
    files = [f"-f={each}".replace("=", "", 1) for each in FILES]
    assert found == printed("explain", *files, "--plugins=*,-ClusterLocality", workload)


@cases(
    ("paths", "delete"),
    {"a changed policy": (["examples/plan/nginx.yaml"], []), "a deleted cluster": ([], ["Cluster/member1"])},
)
def test_a_plan_is_that_of_plan(paths, delete):
    found = as_json(api.load_fleet(*FILES, failover="on").plan(*paths, delete=delete))
    words = [*(f"--against={each}" for each in FILES), *(f"--filename={each}" for each in paths)]
    assert found == printed("plan", *words, "--failover=on", *(f"--delete={each}" for each in delete))


def test_nothing_is_printed_and_warnings_stand_once(capsys):
    fleet = api.load_fleet(*FILES)
    assert fleet.warnings == []
    for _ in range(2):
        fleet.plan("examples/plan/nginx.yaml")
    assert len(fleet.warnings) == 1
    assert capsys.readouterr() == ("", "")


@cases(
    ("ask", "message"),
    {
        "no file": (api.load_fleet, "name at least one file"),
        "a file that does not exist": (lambda: api.load_fleet("absent.yaml"), "absent.yaml"),
        "an unknown plugin": (lambda: api.load_fleet("examples/karmada", plugins="Nothing"), "Nothing"),
        "an unknown value": (lambda: api.load_fleet("examples/karmada", failover="maybe"), "maybe"),
        "a KubeAdmiral federation": (lambda: api.load_fleet("examples/kubeadmiral"), "answered for Karmada only"),
        "an unknown workload": (lambda: api.load_fleet("examples/karmada").decide("deploy/absent"), "absent"),
        "no type": (lambda: api.load_fleet("examples/karmada").decide("nginx"), "KIND/NAME"),
        "no change": (lambda: api.load_fleet("examples/karmada").plan(), "would be applied"),
        "no kubeconfig": (lambda: api.connect_fleet("absent"), "absent"),
    },
)
def test_what_cannot_be_answered_is_an_error_with_its_cause(ask, message):
    with pytest.raises(api.InputError, match=message):
        ask()


def test_a_control_plane_is_read_again_for_a_plan(tmp_path):
    server = KubeOverHTTP()
    shop(server.api)
    access, changed = tmp_path / "kubeconfig", tmp_path / "changed.json"
    access.write_text(server.kubeconfig())
    changed.write_text(json.dumps(policy("new", selector(name="unclaimed"))))
    try:
        fleet = api.connect_fleet(access, "karmada")
        assert fleet.decide("shop/deploy/web").clusters == {"member1": 2, "member2": 2}
        plan = fleet.plan(changed)
        assert [each.resource for each in plan.policies[0].gains] == ["shop/Deployment/unclaimed"]
    finally:
        server.close()
    with pytest.raises(api.ServiceError, match="no connection"):
        fleet.plan(changed)
