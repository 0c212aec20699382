"""The folders of docs/gitops.md: kustomize builds them, and a real API server knows every field of the Job."""

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest
import yaml
from e2e.api import Api
from e2e.assets import binary
from e2e.conftest import needed
from karmada_plane import policy, selector

pytestmark = pytest.mark.e2e

PAGE: Final = (Path(__file__).parents[2] / "docs" / "gitops.md").read_text()
LIMIT_S: Final = 60


def test_kustomize_builds_the_folders_and_the_api_server_knows_the_job(
    api: Api, namespace: str, tmp_path: Path
) -> None:
    for path, text in re.findall(r"^```yaml\n# gitops/(\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("namespace: berthmaster", f"namespace: {namespace}"))
    (tmp_path / "policies").mkdir()
    for name in ("web", "shop"):
        (tmp_path / "policies" / f"{name}.yaml").write_text(yaml.safe_dump(policy(name, selector(name=name))))
    (tmp_path / "policies" / "kustomization.yaml").write_text("resources: [web.yaml, shop.yaml]\n")
    (resources,) = re.findall(r"`gitops/argocd/kustomization.yaml` has `(.*?)`", PAGE)
    (tmp_path / "argocd").mkdir()
    (tmp_path / "argocd" / "kustomization.yaml").write_text(f"{resources}\n")
    command = [needed(lambda: binary("kubectl")), "kustomize", "--load-restrictor=LoadRestrictionsNone"]
    built = subprocess.run(  # the command of the page's products
        [*map(str, command), str(tmp_path / "argocd")], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert built.returncode == 0, built.stderr
    objects = {each["kind"]: each for each in yaml.safe_load_all(built.stdout)}
    assert objects.keys() == {"ConfigMap", "Job", "PropagationPolicy"}
    job, files = objects["Job"], objects["ConfigMap"]
    assert files["data"].keys() == {"web.yaml", "shop.yaml"}
    volumes = {each["name"]: each for each in job["spec"]["template"]["spec"]["volumes"]}
    assert volumes["policies"]["configMap"]["name"] == files["metadata"]["name"]
    for each in (job, files):
        assert each["metadata"]["annotations"]["argocd.argoproj.io/hook"] == "PreSync"
        assert api.create(each, dry_run=True).warnings == (), "the API server warns about unknown fields"
