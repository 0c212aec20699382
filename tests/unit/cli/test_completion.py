"""Names that complete: from files, and from a control plane; never an error on the line."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from click.shell_completion import ShellComplete
from command_rows import table
from tables import cases

from berthmaster_cli.command_table import FILE, load
from berthmaster_cli.complete_line import completions
from berthmaster_cli.main import COMMANDS, main

ROOT = Path(__file__).parents[3]
FILES = ["-f", "examples/karmada/clusters.yaml", "-f", "examples/karmada/groups"]


def values(words, incomplete):
    lines = completions(words, incomplete)
    return [each.partition("\t")[0] for each in lines[:-1]]


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


@cases(
    ("words", "incomplete", "expected"),
    {
        "a lost cluster": (["simulate", *FILES, "--down"], "member", [f"member{n}" for n in range(1, 6)]),
        "a cluster that gets a taint": (["simulate", *FILES, "--taint"], "member1", ["member1="]),
        "the key of a taint": (["simulate", *FILES, "--taint"], "member1=g", []),
        "a workload": (["explain", *FILES], "deploy/", ["deploy/nginx"]),
        "a workload by its kind": (["explain", *FILES], "Deployment/n", ["Deployment/nginx"]),
        "several workloads": (["simulate", *FILES, "deploy/other"], "deploy/", ["deploy/nginx"]),
        "a type": (["explain", *FILES], "deploy", ["deployments"]),
        "the cluster of why-not": (["why-not", *FILES, "deploy/nginx"], "member3", ["member3"]),
        "a namespace": (["explain", *FILES, "-n"], "", ["default"]),
        "the files of a plan": (["plan", "--against", "examples/karmada/groups", "-n"], "d", ["default"]),
        "a file that does not exist": (["explain", "-f", "absent.yaml"], "deploy/", []),
        "a file that is no YAML": (["explain", "-f", "README.md"], "deploy/", []),
    },
)
def test_names_of_files_complete(words, incomplete, expected):
    assert values(words, incomplete) == expected


@pytest.fixture
def plane(httpserver, tmp_path):
    """A control plane with some names. ``plane(paths)`` serves names by path."""
    contexts = [
        {"name": name, "context": {"cluster": "c", "user": "u", "namespace": "shop"}} for name in ("one", "two")
    ]
    content = {
        "current-context": "one", "contexts": contexts, "users": [{"name": "u", "user": {"token": "t"}}],
        "clusters": [{"name": "c", "cluster": {"server": httpserver.url_for("").rstrip("/")}}],
    }  # fmt: skip
    (tmp_path / "config").write_text(yaml.safe_dump(content))

    def serve(path, *names):
        rows = [{"cells": [name, "Ready"]} for name in names]
        httpserver.expect_request(path).respond_with_json({"kind": "Table", "rows": rows})
        return ["--kubeconfig", str(tmp_path / "config")]

    return serve


POLICIES = "/apis/policy.karmada.io/v1alpha1"


@cases(
    ("path", "words", "incomplete", "expected"),
    {
        "clusters": ("/apis/cluster.karmada.io/v1alpha1/clusters", ["simulate", "--down"], "e", ["eu"]),
        "clusters of a drain": ("/apis/cluster.karmada.io/v1alpha1/clusters", ["drain"], "e", ["eu"]),
        "namespaces": ("/api/v1/namespaces", ["explain", "-n"], "e", ["eu"]),
        "workloads of the namespace of the context": (
            "/apis/apps/v1/namespaces/shop/deployments", ["explain"], "deploy/", ["deploy/eu", "deploy/us"]
        ),
        "workloads of a namespace": (
            "/apis/apps/v1/namespaces/other/deployments", ["explain", "-n", "other"], "deploy/u", ["deploy/us"]
        ),
        "a cluster-scoped type": (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles", ["explain"], "clusterrole/u", []
        ),
    },
)  # fmt: skip
def test_names_of_a_control_plane_complete(plane, path, words, incomplete, expected):
    command, *rest = words
    option = rest.pop() if rest and rest[-1] in {"-n", "--down"} else None
    known = plane(path, "eu", "us")
    assert values([command, *known, *rest, *filter(None, [option])], incomplete) == expected


def test_contexts_complete(plane):
    assert values(["explain", *plane("/"), "--context"], "") == ["one", "two"]


@cases("path", {"no answer": "slow", "no rights": "forbidden", "no kubeconfig": "absent"})
def test_no_answer_completes_nothing(plane, httpserver, tmp_path, capfd, path):
    known = plane("/other")
    collection = "/apis/cluster.karmada.io/v1alpha1/clusters"
    if path == "slow":
        httpserver.expect_request(collection).respond_with_handler(lambda _: time.sleep(3))
    elif path == "forbidden":
        httpserver.expect_request(collection).respond_with_json({}, 403)
    else:
        known = ["--kubeconfig", str(tmp_path / "absent")]
    since_s = time.monotonic()
    assert values(["simulate", *known, "--down"], "") == []
    assert time.monotonic() - since_s < 2
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_the_names(shell):
    words = "berthmaster explain -f examples/karmada/clusters.yaml -f examples/karmada/groups"
    environment = {
        "bash": {"COMP_WORDS": f"{words} deploy/", "COMP_CWORD": "6"},
        "zsh": {"COMP_WORDS": f"{words} deploy/", "COMP_CWORD": "6"},
        "fish": {"COMP_WORDS": words, "COMP_CWORD": "deploy/"},
    }[shell]
    done = subprocess.run(  # noqa: S603 - our own command
        [str(Path(sys.executable).with_name("berthmaster"))],
        env={"PATH": "/usr/bin:/bin", "_BERTHMASTER_COMPLETE": f"{shell}_complete", **environment},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert "deploy/nginx" in done.stdout
    assert done.stderr == ""


def test_the_table_of_commands_is_the_one_that_the_commands_make():
    assert FILE.read_bytes() == table(), "an option changed; run make reference"


def completed(root, words, incomplete):
    found = ShellComplete(root, {}, "berthmaster", "").get_completions(words, incomplete)
    # click keeps the names of the option of the first context, which another test may make without settings
    return [(each.value, each.type, each.help) for each in found if each.value not in {"-h", "--help"}]


@pytest.mark.parametrize("command", ["", *COMMANDS, "completion"])
def test_the_commands_of_the_table_complete_as_the_commands(command):
    words = [command] if command else []
    asked = [(words, "--"), (words, "-")]
    asked += [([*words, each], "") for each, *_ in completed(main, words, "--") if each != "--version"]
    if command in {"certs", "ledger", "register"}:
        asked += [([*words, each], "--") for each, *_ in completed(main, words, "")]
    for given in asked:
        assert completed(load(), *given) == completed(main, *given), given


def test_a_completion_imports_no_command_and_no_official_client(plane):
    known = plane("/apis/apps/v1/namespaces/shop/deployments", "eu")
    code = (
        "import sys; from berthmaster_cli.complete_line import completions; "
        f"assert completions(['explain', *{known}], 'deploy/') == ['deploy/eu', ':4'];"
        "print(*{'kubernetes', 'numpy', 'rich', 'berthmaster.scheduling', 'berthmaster_cli.main'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - ours
    assert done.stdout == "\n"
