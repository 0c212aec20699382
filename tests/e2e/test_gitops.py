"""The folders of docs/gitops.md: kustomize builds them, the Job renders and plans, and an API server knows the Job."""

import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner
from e2e.api import Api
from e2e.assets import binary
from e2e.conftest import needed
from gitops_page import PAGE, arguments, mount, web_policy, without_namespace, write_fleet, write_folders

from berthmaster_cli.main import main

pytestmark = pytest.mark.e2e

LIMIT_S: Final = 60


def kubectl(*words: object) -> str:
    done = subprocess.run(
        [str(needed(lambda: binary("kubectl"))), *map(str, words)],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def built(tmp_path: Path) -> dict[str, dict[str, Any]]:
    """What Argo CD gets: the ConfigMap, the Job and the policies, by kind."""
    write_folders(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "web.yaml").write_text(yaml.safe_dump(without_namespace(web_policy("b"))))
    (tmp_path / "policies" / "shop.yaml").write_text("")
    (tmp_path / "policies" / "kustomization.yaml").write_text("namespace: shop\nresources: [web.yaml, shop.yaml]\n")
    (resources,) = re.findall(r"`gitops/argocd/kustomization.yaml` has `(.*?)`", PAGE)
    (tmp_path / "argocd").mkdir()
    (tmp_path / "argocd" / "kustomization.yaml").write_text(f"{resources}\n")
    text = kubectl("kustomize", "--load-restrictor=LoadRestrictionsNone", tmp_path / "argocd")
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def test_the_api_server_knows_the_job(api: Api, namespace: str, built: dict[str, dict[str, Any]]) -> None:
    assert built.keys() == {"ConfigMap", "Job", "PropagationPolicy"}
    job, files = built["Job"], built["ConfigMap"]
    assert files["data"].keys() == {"kustomization.yaml", "web.yaml", "shop.yaml"}
    volumes = {each["name"]: each for each in job["spec"]["template"]["spec"]["volumes"]}
    assert volumes["policies"]["configMap"]["name"] == files["metadata"]["name"]
    for each in (job, files):
        assert each["metadata"]["annotations"]["argocd.argoproj.io/hook"] == "PreSync"
        each["metadata"]["namespace"] = namespace
        assert api.create(each, dry_run=True).warnings == (), "the API server warns about unknown fields"


def test_the_job_plans_what_the_kustomization_applies(tmp_path: Path, built: dict[str, dict[str, Any]]) -> None:
    folders = {"/policies": tmp_path / "mounted", "/rendered": tmp_path / "rendered"}
    for each in folders.values():
        each.mkdir()
    volumes = {each["name"]: each for each in built["Job"]["spec"]["template"]["spec"]["volumes"]}
    mount(built["ConfigMap"], volumes["policies"], folders["/policies"])
    kubectl(*arguments(built["Job"], "initContainers", "render", folders))
    write_fleet(tmp_path / "fleet.yaml")
    words = [*arguments(built["Job"], "containers", "plan", folders), "--fail-on=moved"]
    against = [each for each in words if "kubeconfig" not in each] + [f"--against={tmp_path}/fleet.yaml"]
    found = CliRunner().invoke(main, against)
    assert found.exit_code == 3, found.output
    assert "1 workload would move" in found.stderr
