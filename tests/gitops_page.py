"""The folders of docs/gitops.md, and the volume that a pod gets from a ConfigMap."""

import re
from pathlib import Path
from typing import Any, Final

import yaml
from fleet_dump import members, stored_binding, stored_policy, stored_template

PAGE: Final = (Path(__file__).parents[1] / "docs" / "gitops.md").read_text()
JSON = dict[str, Any]


def write_folders(root: Path) -> None:
    """Write the files that the page shows below a folder that stands for ``gitops``."""
    for path, text in re.findall(r"^```yaml\n# gitops/(\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def mount(files: JSON, volume: JSON, target: Path) -> None:
    """Write the data of a ConfigMap as the kubelet does: a folder of links to a folder with a date."""
    paths = {each["key"]: each["path"] for each in volume["configMap"].get("items", ())}
    dated = target / "..2026_05_01"
    for name, text in files["data"].items():
        file = dated / paths.get(name, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (target / "..data").symlink_to(dated.name)
    for each in dated.iterdir():
        (target / each.name).symlink_to(f"..data/{each.name}")


def without_namespace(raw: JSON) -> JSON:
    return {**raw, "metadata": {key: value for key, value in raw["metadata"].items() if key != "namespace"}}


def web_policy(cluster: str) -> JSON:
    """A policy of the Deployment web in the namespace shop."""
    policy = stored_policy("web", to=[cluster], target={"name": "web"})
    return {**policy, "metadata": {**policy["metadata"], "namespace": "shop"}}


def write_fleet(path: Path) -> None:
    """Write a fleet in which shop/web runs on the cluster a."""
    held = stored_template(name="web", held_by=web_policy("a"))
    held["metadata"]["namespace"] = "shop"
    fleet = [*members("a", "b"), web_policy("a"), held, stored_binding(held, {"a": 2}, policy=web_policy("a"))]
    path.write_text(yaml.safe_dump_all(fleet))


def arguments(job: JSON, part: str, name: str, folders: dict[str, Path]) -> list[str]:
    """Return the arguments of a container of the Job, with the folders that stand for its mounts."""
    (container,) = [each for each in job["spec"]["template"]["spec"][part] if each["name"] == name]
    mounted = re.compile(rf"(?<![\w/])({'|'.join(folders)})(?=/|$)")
    return [mounted.sub(lambda found: str(folders[found[1]]), each) for each in container["args"]]
