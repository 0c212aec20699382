"""The check that wheels of all dependencies exist: what it asks pip, and what it reports."""

import importlib.util
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def wheels() -> Any:
    spec = importlib.util.spec_from_file_location("wheels", ROOT / "packaging" / "wheels.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("code", "errors", "expected"),
    [
        pytest.param(0, "", "", id="all exist"),
        pytest.param(
            1, "ERROR: No matching distribution found for numpy==9\nnotice: upgrade\n",
            "ERROR: No matching distribution found for numpy==9", id="one is missing",
        ),
        pytest.param(1, "", "pip failed", id="without a message"),
    ],
)  # fmt: skip
def test_a_missing_wheel_is_reported(monkeypatch, wheels, code, errors, expected):
    asked: list[str] = []
    result = SimpleNamespace(returncode=code, stderr=errors)
    monkeypatch.setattr(subprocess, "run", lambda command, **_: asked.extend(command) or result)
    assert wheels.missing(Path("pins.txt"), "linux-arm64", "3.13") == expected
    assert {"--only-binary=:all:", "--dry-run", "--python-version=3.13", "--platform=manylinux_2_28_aarch64"} <= set(
        asked
    )


def test_the_platforms_are_those_of_the_plugin(wheels):
    spec = importlib.util.spec_from_file_location("archive", ROOT / "packaging" / "krew" / "archive.py")
    assert spec is not None
    assert spec.loader is not None
    archive = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(archive)
    assert {name: archive.PLATFORMS[name] for name in wheels.PLATFORMS} == wheels.PLATFORMS
