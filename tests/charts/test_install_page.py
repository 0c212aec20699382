"""The commands of docs/install.md work with the chart."""

import re
import shlex

import pytest
import yaml

from charts import helm

PAGE = (helm.CHART.parents[1] / "docs" / "install.md").read_text()
BLOCKS = re.findall(r"^```(sh|yaml)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
FILES = {text.splitlines()[0].removeprefix("# "): text for kind, text in BLOCKS if kind == "yaml"}
COMMANDS = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines()]
HELM = [line for line in COMMANDS if re.match(r"helm (install|upgrade) ", line)]


@pytest.mark.parametrize("line", HELM)
def test_a_command_of_helm_renders(line, tmp_path, monkeypatch):
    """Run `helm template` instead of `install` or `upgrade`, without the options that it does not have."""
    monkeypatch.chdir(helm.CHART.parents[1])
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    words = shlex.split(re.sub(r"\$\([^)]*\)", "Y2VydA==", line))
    words = [word for word in words[2:] if word not in {"--install", "--create-namespace", "--reset-then-reuse-values"}]
    words = [str(tmp_path / word) if word in FILES else word for word in words]
    if "--reset-then-reuse-values" in line:  # the release has an image already
        words.append(f"--set=image.repository={helm.IMAGE['repository']}")
    objects = [each for each in yaml.safe_load_all(helm.run("template", *words)) if each]
    assert helm.of_kind(objects, "Deployment")


def test_every_block_of_values_is_used_by_a_command():
    assert {name for name in FILES if any(f"--values {name}" in line for line in HELM)} == set(FILES)


def test_every_object_in_a_kubectl_command_is_rendered():
    made = {f"{each['kind'].lower()}/{each['metadata']['name']}" for each in helm.render({})}
    asked = [word for line in COMMANDS for word in line.split() if re.fullmatch(r"(job|deployment)/\S+", word)]
    assert asked
    assert set(asked) <= made
    carried = re.findall(r"get configmap (\S+)", "\n".join(COMMANDS))
    assert set(carried) == {"berthmaster-target-rbac", "berthmaster-kube-scheduler"}


@pytest.mark.parametrize(
    "value",
    sorted(set(re.findall(r"`((?:webhook|target|certificates|extender|controllers|monitoring|image)\.[\w.]+)", PAGE))),
)
def test_every_value_that_is_named_exists(value):
    known = yaml.safe_load((helm.CHART / "values.yaml").read_text())
    for key in value.split("."):
        known = known[key]
