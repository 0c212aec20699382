"""Run helm as a function: values in, objects out."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from charts.assets import helm_binary

CHART: Final = Path(__file__).parents[2] / "charts" / "berthmaster"
RELEASE: Final = "berthmaster"
NAMESPACE: Final = "karmada-system"
IMAGE: Final = {"repository": "registry.example.org/berthmaster"}
_LIMIT_S: Final = 60

Manifest = dict[str, Any]


class RefusedError(Exception):
    """helm failed; the message is helm's."""


def run(*arguments: str, stdin: str = "") -> str:
    """Run helm and return its output."""
    done = subprocess.run(
        [str(helm_binary()), *arguments], input=stdin, capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )
    if done.returncode:
        raise RefusedError(done.stderr + done.stdout)
    return done.stdout


@cache
def _text(values: str, release: str, namespace: str) -> str:
    return run("template", release, str(CHART), f"--namespace={namespace}", "--values=-", stdin=values)


def text(values: Mapping[str, Any], release: str = RELEASE, namespace: str = NAMESPACE) -> str:
    """What the chart renders to, with these values above the defaults and an image, which has no usable default."""
    return _text(json.dumps({"image": IMAGE, **values}, sort_keys=True), release, namespace)


def render(values: Mapping[str, Any], release: str = RELEASE, namespace: str = NAMESPACE) -> list[Manifest]:
    """Return the rendered objects. The caller owns them and may change them."""
    parsed: list[Manifest] = json.loads(_parsed(text(values, release, namespace)))
    return parsed


@cache
def _parsed(rendered: str) -> str:
    """The objects of a text as JSON, for YAML is slow to read."""
    return json.dumps([each for each in yaml.safe_load_all(rendered) if each])


def named(objects: list[Manifest], kind: str, name: str) -> Manifest:
    [found] = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def of_kind(objects: list[Manifest], *kinds: str) -> list[Manifest]:
    return [each for each in objects if each["kind"] in kinds]


def pods(objects: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Every pod template, with the kind and name of what makes it."""
    for each in of_kind(objects, "Deployment", "Job"):
        yield f"{each['kind']}/{each['metadata']['name']}", each["spec"]["template"]


def registration(objects: list[Manifest], name: str = f"{RELEASE}-registration") -> list[Manifest]:
    """The objects that the hook Jobs apply in the target, or remove from it with another name."""
    for each in of_kind(objects, "ConfigMap", "Secret"):
        if each["metadata"]["name"] == name:
            held = each.get("data") or each["stringData"]
            return [one for one in yaml.safe_load_all(held["registration.yaml"]) if one]
    return []
