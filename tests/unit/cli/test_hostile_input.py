"""Commands print names, keys, values and file names of input as data."""

import json

import pytest
from click.testing import CliRunner

from berthmaster_cli import explain, simulate
from berthmaster_cli.lint import command as lint
from berthmaster_cli.lint.command import FORMATS
from berthmaster_cli.main import run

PAYLOAD = "x\x1b[31m\x1b]8;;x\x1b\\\n::error file=a::b\r##[add-mask]\x9b1m[bold]\u202e"
CLUSTER = {
    "apiVersion": "cluster.karmada.io/v1alpha1",
    "kind": "Cluster",
    "metadata": {"name": f"m[/x]{PAYLOAD}"},
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}],
        "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]}],
    },
}
OTHER = {**CLUSTER, "metadata": {"name": "m2", "labels": {PAYLOAD: PAYLOAD}}}
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": f"web{PAYLOAD}", "namespace": PAYLOAD},
    "spec": {"replicas": 2, "template": {"metadata": {}, "spec": {"containers": []}}},
}
POLICY = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": PAYLOAD, "namespace": PAYLOAD},
    "spec": {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
        "placement": {
            "clusterAffinities": [
                {"affinityName": PAYLOAD, "labelSelector": {"matchLabels": {"a": "b"}}},
                {"affinityName": "all", "exclude": [PAYLOAD]},
            ]
        },
    },
}
BAD_POLICY = {
    **POLICY,
    "spec": {
        PAYLOAD: 1,
        "preemption": PAYLOAD,
        "resourceSelectors": [
            {"apiVersion": PAYLOAD, "kind": PAYLOAD, "labelSelector": {"matchLabels": {PAYLOAD: PAYLOAD}}}
        ],
        "placement": {
            "clusterAffinity": {"fieldSelector": {"matchExpressions": [{"key": PAYLOAD, "operator": PAYLOAD}]}},
            "clusterTolerations": [{"operator": PAYLOAD, "value": PAYLOAD, "effect": PAYLOAD}],
        },
    },
}


def check(printed, *, commands=False):
    """Assert that no terminal and no CI system interprets the text. ``commands``: lines are commands for GitHub."""
    assert printed.endswith("\n")
    for line in printed.split("\n"):
        assert line.isprintable(), repr(line)
        assert line.strip().startswith("::") == (commands and line != "")
        assert "##[" not in line


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "a\n##[x]\udc80"  # no text in UTF-8
    folder.mkdir()

    def write(*objects):
        (folder / "m.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        return str(folder / "m.json")

    return write


@pytest.mark.parametrize("arguments", ["-o table", "-o json", "-o yaml", "--down m2", "--down m2 -o yaml"])
def test_simulate(path, arguments):
    manifests = path(CLUSTER, OTHER, WEB, POLICY)
    result = CliRunner().invoke(simulate.command, ["--lenient", "-f", manifests, *arguments.split()])
    assert result.exit_code == 0
    check(result.output)
    assert "web" in result.output


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_explain(path, output):
    name = f"{PAYLOAD}/Deployment/web{PAYLOAD}"
    manifests = path(CLUSTER, OTHER, WEB, POLICY)
    result = CliRunner().invoke(explain.command, ["--lenient", "-f", manifests, "-o", output, "--", name])
    assert result.exit_code == 0
    check(result.output)


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("policy", [POLICY, BAD_POLICY], ids=["warnings", "errors"])
def test_lint(path, output, policy):
    result = CliRunner().invoke(lint.command, ["-f", path(policy), "-o", output])
    check(result.output, commands=output == "github")
    assert not result.exception or isinstance(result.exception, SystemExit)
    assert result.exit_code in (0, 1)


@pytest.mark.parametrize(
    ("arguments", "objects"),
    [
        pytest.param(["simulate", "-f"], [{**POLICY, "metadata": {"name": [PAYLOAD]}}], id="an invalid value"),
        pytest.param(["simulate", "-f"], [BAD_POLICY], id="an unknown field"),
        pytest.param(["simulate", "-f"], [WEB, WEB], id="a duplicate"),
        pytest.param(["explain", f"Deployment/[/x]{PAYLOAD}", "-f"], [CLUSTER, WEB, POLICY], id="an unknown name"),
        pytest.param(["simulate", "--down", PAYLOAD, "-f"], [CLUSTER, WEB], id="an option"),
        pytest.param([PAYLOAD], [], id="a command"),
        pytest.param([f"--{PAYLOAD}"], [], id="a flag"),
    ],
)
def test_errors(path, monkeypatch, capsys, arguments, objects):
    monkeypatch.setattr("sys.argv", ["berthmaster", *arguments, *([path(*objects)] if objects else [])])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 2
    check(capsys.readouterr().err)
