"""The namespace of objects of a plan that name none."""

import json
import shlex

import pytest
from builders import deployment
from click.testing import CliRunner
from fleet_dump import RECORD, members, stored_binding, stored_policy, stored_template
from karmada_plane import policy, selector, shop
from kube_over_http import KubeOverHTTP
from tables import cases

from berthmaster_cli.main import main

TAKEN = "PropagationPolicy checkout has no namespace, which is taken as 'default'"
RENDER = "set it with -n, or render the files first"


def in_shop(raw):
    return {**raw, "metadata": {**raw["metadata"], "namespace": "shop"}}


def without_namespace(raw):
    return {**raw, "metadata": {key: value for key, value in raw["metadata"].items() if key != "namespace"}}


def checkout(*clusters):
    return in_shop(stored_policy("checkout", to=clusters, target={"name": "checkout"}))


@pytest.fixture
def run(tmp_path):
    """Plan that the policy of shop/checkout gets other clusters. ``files``: what is applied."""

    def run(line, *files, stored=None):
        held = stored_template(in_shop(deployment("checkout", replicas=9)), held_by=checkout("a"))
        present = [*members("a", "b"), checkout("a"), held, stored_binding(held, {"a": 9}, policy=checkout("a"))]
        for name, objects in (("stored", stored or [RECORD, *present]), ("changed", files)):
            content = {"kind": "List", "apiVersion": "v1", "items": objects}
            (tmp_path / f"{name}.json").write_text(json.dumps(content))
        words = ["plan", "--against", tmp_path / "stored.json", "-f", tmp_path / "changed.json", *shlex.split(line)]
        return CliRunner().invoke(main, list(map(str, words)))

    return run


@cases(
    ("line", "code", "warning"),
    {
        "none is named: a warning, and no move": ("--fail-on moved", 0, f"{TAKEN}; {RENDER}"),
        "-n names it": ("-n shop --fail-on moved", 3, None),
        "a strict plan refuses": ("--strict-namespace", 1, "PropagationPolicy checkout has no namespace; set it"),
        "a strict plan accepts -n": ("--strict-namespace -n shop --fail-on moved", 3, None),
    },
)
def test_a_policy_without_a_namespace(run, line, code, warning):
    found = run(line, without_namespace(checkout("b")))
    assert found.exit_code == code, found.output
    assert warning in found.stderr if warning else "namespace" not in found.stderr


def test_one_warning_names_all_objects(run):
    objects = [without_namespace(stored_policy(f"p{number}", to=["b"], new=True)) for number in range(7)]
    found = run("", *objects, checkout("b"))
    (line,) = [each for each in found.stderr.splitlines() if "namespace" in each]
    assert "7 objects have no namespace (PropagationPolicy p0" in line
    assert "and 2 more)" in line


@cases(
    "changed", {"a cluster": members("c")[0], "a cluster policy": stored_policy("all", kind="ClusterPropagationPolicy")}
)
def test_cluster_scoped_objects_need_no_namespace(run, changed):
    assert run("--strict-namespace", changed).exit_code == 0


def test_a_namespace_of_an_object_wins(run):
    assert run("-n other --fail-on moved", checkout("b")).exit_code == 3


def test_files_without_any_namespace_are_compared_in_one(run):
    stored = [without_namespace(each) for each in (*members("a", "b"), checkout("a"), deployment("checkout"))]
    assert run("-n shop --fail-on moved", without_namespace(checkout("b")), stored=stored).exit_code == 3


@cases(
    ("line", "code"),
    {
        "of two with the name, that of -n": ("-n shop --delete pp/checkout", 0),
        "not one of another namespace": ("-n other --delete pp/checkout", 1),
        "a name with its namespace": ("-n other --delete shop/pp/checkout", 0),
    },
)
def test_deletions_are_in_the_namespace(run, line, code):
    assert run(line, stored_policy("new", to=["b"], new=True)).exit_code == code


@pytest.fixture(scope="module")
def server():
    server = KubeOverHTTP()
    shop(server.api)
    yield server
    server.close()


@cases(
    ("command", "namespaced", "warning"),
    {
        "plan: the namespace of the context": ("plan", True, False),
        "plan: a context without one": ("plan", False, True),
        "simulate: the namespace of the context": ("simulate --live", True, False),
        "simulate: a context without one": ("simulate --live", False, True),
    },
)
def test_a_control_plane(server, tmp_path, command, namespaced, warning):
    text = server.kubeconfig()
    (tmp_path / "kubeconfig").write_text(text if namespaced else text.replace('"namespace": "shop"', '"namespace": ""'))
    elsewhere = {"clusterAffinity": {"clusterNames": ["member3"]}}
    changed = without_namespace(policy("web", selector(name="web"), placement=elsewhere))
    (tmp_path / "changed.json").write_text(json.dumps(changed))
    words = [f"--kubeconfig={tmp_path}/kubeconfig", f"--filename={tmp_path}/changed.json", "--output=json"]
    found = CliRunner().invoke(main, [*command.split(), *words])
    assert found.exit_code == 0, found.output + repr(found.exception)
    assert ("PropagationPolicy web has no namespace" in found.stderr) == warning
    answer = json.loads(found.stdout)
    if command == "plan":
        assert bool(answer["moves"]) != warning
