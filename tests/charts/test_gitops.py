"""The variant of docs/gitops.md for a chart: the real helm renders what the Job mounts, and the plan sees its move."""

from pathlib import Path

import yaml
from click.testing import CliRunner
from gitops_page import arguments, mount, web_policy, without_namespace, write_fleet, write_folders

from berthmaster_cli.main import main
from charts import helm


def test_the_job_plans_what_the_chart_applies(tmp_path: Path) -> None:
    write_folders(tmp_path)
    folders = {"/policies": tmp_path / "mounted", "/rendered": tmp_path / "rendered"}
    for each in folders.values():
        each.mkdir()
    policy = yaml.safe_dump(without_namespace(web_policy("b"))).replace("- b\n", "- {{ .Values.cluster }}\n")
    built = yaml.safe_load((tmp_path / "plan-chart" / "kustomization.yaml").read_text())
    files = {
        "Chart.yaml": "{apiVersion: v2, name: policies, version: 0.1.0}",
        "values.yaml": "cluster: b\n",
        "policies.yaml": policy,
    }
    (generated,), job = built["configMapGenerator"], yaml.safe_load(built["patches"][0]["patch"])
    assert {Path(each).name for each in generated["files"]} == files.keys()
    (volume,) = job["spec"]["template"]["spec"]["volumes"]
    mount({"data": files}, volume, folders["/policies"])
    helm.run(*arguments(job, "initContainers", "render", folders))
    write_fleet(tmp_path / "fleet.yaml")
    words = [*arguments(job, "containers", "plan", folders), "--fail-on=moved"]
    found = CliRunner().invoke(
        main, [each for each in words if "kubeconfig" not in each] + [f"--against={tmp_path}/fleet.yaml"]
    )
    assert found.exit_code == 3, found.output
    assert "1 workload would move" in found.stderr
