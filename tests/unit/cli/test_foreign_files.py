"""Folders as people have them: files of other programs are passed over with one note by every command."""

import json
import shutil

import pytest
import yaml
from builders import deployment
from click.testing import CliRunner
from fleet_dump import members, stored_policy
from tables import cases, data

from berthmaster.model.errors import BerthmasterError
from berthmaster_cli.main import main

FOREIGN = {name: tuple(each.values()) for name, each in data("foreign_files").items()}
COMMANDS = (
    "lint D",
    "simulate -f F -f D",
    "plan --against F -f D",
    "resilience -f F -f D",
    "explain -f F -f D deploy/web",
)


@pytest.fixture
def folder(tmp_path):
    """A folder with a policy and a workload, beside the file of a fleet."""
    (tmp_path / "fleet.yaml").write_text(yaml.safe_dump_all(members("a")))
    found = tmp_path / "manifests"
    found.mkdir()
    objects = [stored_policy(to=["a"], new=True), deployment("web")]
    (found / "policy.yaml").write_text(yaml.safe_dump_all(objects))
    return found


@pytest.fixture
def run(folder):
    def run(line, given=""):
        names = {"D": folder, "F": folder.parent / "fleet.yaml"}
        found = CliRunner().invoke(main, [str(names.get(each, each)) for each in line.split()], input=given)
        printed = str(found.exception) if isinstance(found.exception, BerthmasterError) else found.output
        return found.exit_code, printed

    return run


@pytest.mark.parametrize("command", COMMANDS)
@cases(("path", "text", "note"), FOREIGN)
def test_a_file_of_another_program_is_passed_over(run, folder, command, path, text, note):
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_text(text)
    code, printed = run(command)
    assert code == 0, printed
    assert printed.count(note) == 1, printed


@pytest.mark.parametrize("command", [each for each in COMMANDS if not each.startswith("lint")])
def test_an_object_without_a_name_yet_is_passed_over(run, folder, command):
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "sample-job-"}, "spec": {}}
    (folder / "job.yaml").write_text(yaml.safe_dump_all([job, deployment("beside")]))
    code, printed = run(command)
    assert code == 0, printed
    assert printed.count("job.yaml has a generateName, and gets its name when it is created") == 1, printed


@cases(
    ("namespace", "reason"),
    {
        "of Karmada": ("karmada-system", "the namespace karmada-system is reserved"),
        "of Kubernetes": ("kube-system", "the namespace kube-system is not propagated"),
    },
)
@pytest.mark.parametrize("command", ["explain -f F -f D sts/etcd", "why-not -f F -f D sts/etcd a"])
def test_a_resource_that_is_never_propagated_says_so(run, folder, command, namespace, reason):
    etcd = {**deployment("etcd", namespace=namespace), "kind": "StatefulSet"}
    (folder / "etcd.yaml").write_text(yaml.safe_dump(etcd))
    code, printed = run(command)
    assert code == 1
    assert f"no policy can place {namespace}/StatefulSet/etcd" in printed
    assert reason in printed


def test_a_chart_in_the_folder(run, folder):
    (folder / "chart" / "templates").mkdir(parents=True)
    (folder / "chart" / "Chart.yaml").write_text("{apiVersion: v2, name: a}")
    (folder / "chart" / "values.yaml").write_text("kind: Deployment\nmetadata: {labels: {}}")
    quoted = deployment("web") | {"metadata": {"name": "{{ .Values.name }}"}}
    (folder / "chart" / "templates" / "web.yaml").write_text(yaml.safe_dump(quoted))
    code, printed = run("simulate -f F -f D")
    assert code == 0, printed
    assert "Chart.yaml, " in printed
    assert "2 files, each is a part of a Helm chart" in printed
    assert "web.yaml is a template" in printed


@cases(
    "text",
    {
        "an object without its apiVersion": "kind: Deployment\nmetadata: {name: a}",
        "an object of a known kind without metadata": "apiVersion: apps/v1\nkind: Deployment\nspec: {}",
        "YAML with a mistake": "apiVersion: apps/v1\nkind: [Deployment",
        "a List of something else": "apiVersion: v1\nkind: List\nitems: [{a: 1}]",
        "a misspelled kind without metadata": "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolcy",
    },
)
@pytest.mark.parametrize("command", ["simulate -f F -f D", "plan --against F -f D"])
def test_a_manifest_with_a_mistake_stays_an_error(run, folder, command, text):
    (folder / "wrong.yaml").write_text(text)
    code, printed = run(command)
    assert code == 1, printed


@cases(
    "text",
    {
        "nothing": "",
        "only space": "\n  \n---\n",
        "an empty List": "apiVersion: v1\nkind: List\nitems: []\n",
        "an empty list of policies": "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicyList\nitems: []\n",
    },
)
@pytest.mark.parametrize("command", ["lint D", "simulate -f D", "plan --against F -f D"])
def test_an_empty_input_is_an_error(run, folder, command, text):
    (folder / "policy.yaml").write_text(text)
    code, printed = run(command)
    assert code in {1, 2}
    assert "there is no object in" in printed


COMMENTS = "# nothing yet\n---\n# nor here\n"


@cases(
    ("command", "code"),
    {
        "lint passes over it": ("lint D", 0),
        "a simulation has nothing to simulate": ("simulate -f D", 1),
        "a plan has nothing to plan": ("plan --against F -f D", 1),
        "beside clusters": ("simulate -f F -f D", 0),
    },
)
def test_a_file_of_comments_is_passed_over(run, folder, command, code):
    (folder / "policy.yaml").write_text(COMMENTS)
    found, printed = run(command)
    assert found == code, printed
    assert printed.count("has only comments") == 1, printed
    assert ("there is no object in" in printed) == bool(code), printed


def test_what_a_program_prints_without_objects_is_an_empty_input(run):
    code, printed = run("lint -", COMMENTS)
    assert code == 2, printed
    assert "there is no object in" in printed


def test_the_error_of_an_input_of_other_programs_says_what_it_has(run, folder):
    (folder / "policy.yaml").unlink()
    (folder / "kustomization.yaml").write_text("resources: []")
    code, printed = run("plan --against F -f D")
    assert code == 1
    assert "there is no object in" in printed
    assert "render it with `kubectl kustomize`" in printed


KUBECTL = """#!/bin/sh
if [ "$1" = kustomize ] && [ -f "$2/kustomization.yaml" ]; then
  exec sed "s/namespace: default/namespace: shop/" "$2/policy.yaml"
fi
echo "error: unable to find one of 'kustomization.yaml'" >&2
exit 1
"""


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """A kubectl that renders a kustomization with the namespace shop."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "kubectl"
    program.write_text(KUBECTL)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


@pytest.mark.usefixtures("kubectl")
@cases(
    ("command", "expected"),
    {
        "simulate": ("simulate -f F -k D", "shop/Deployment/web"),
        "plan": ("plan --against F -k D", "PropagationPolicy shop/web"),
        "lint": ("lint -k D", "2 objects, 1 checked"),
        "explain": ("explain -f F -k D deploy/web -n shop", "shop/Deployment/web"),
    },
)
def test_a_kustomization_is_rendered(run, folder, command, expected):
    (folder / "kustomization.yaml").write_text("namespace: shop\nresources: [policy.yaml]\n")
    code, printed = run(command)
    assert code == 0, printed
    assert expected in printed


@pytest.mark.usefixtures("kubectl")
@pytest.mark.parametrize("command", ["simulate -f F -k D", "plan --against F -k D", "lint -k D"])
def test_the_error_of_kubectl_is_reported(run, command):
    code, printed = run(command)
    assert code in {1, 2}
    assert "unable to find one of 'kustomization.yaml'" in printed


def test_without_kubectl_the_remedy_is_named(run, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    code, printed = run("simulate -f F -k D")
    assert code == 1
    assert "neither kubectl nor kustomize is in PATH" in printed


def test_a_hook_checks_only_files_that_hold_a_policy(run, folder):
    (folder / "broken.yaml").write_text("a: [1,\nb: }")
    (folder / "misspelled.yaml").write_text(
        "apiVersion: policy.karmda.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: a}"
    )
    names = " ".join(str(folder / each) for each in ("broken.yaml", "misspelled.yaml"))
    code, printed = run(f"lint --only-policies {names}")
    assert code == 1
    assert "broken.yaml" not in printed
    assert "did you mean policy.karmada.io/v1alpha1?" in printed
    assert run(f"lint --only-policies {folder / 'broken.yaml'}")[0] == 0


def test_rows_are_json_without_notes(folder):
    (folder / "kustomization.yaml").write_text("resources: []")
    names = {"D": folder, "F": folder.parent / "fleet.yaml"}
    found = CliRunner().invoke(
        main, ["simulate", f"--filename={names['F']}", f"--filename={names['D']}", "--output=json"]
    )
    assert json.loads(found.stdout)["items"][0]["resource"] == "default/Deployment/web"
