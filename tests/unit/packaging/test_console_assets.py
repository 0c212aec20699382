"""The pins of the console's scripts, and how they come into the package. No test needs npm."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT_LIMIT_BYTES = 200_000

spec = importlib.util.spec_from_file_location("console_assets", ROOT / "packaging" / "console_assets.py")
assets = importlib.util.module_from_spec(spec)
spec.loader.exec_module(assets)

DECLARED = json.loads((assets.PINS / "package.json").read_text())
LOCKED = json.loads((assets.PINS / "package-lock.json").read_text())["packages"]
PINNED = {name.removeprefix("node_modules/"): entry for name, entry in LOCKED.items() if name}


def test_each_package_is_pinned_by_version_and_checksum():
    declared = DECLARED["dependencies"] | DECLARED["devDependencies"]
    assert {name: entry["version"] for name, entry in PINNED.items()} == declared
    assert all(entry["integrity"].startswith("sha512-") for entry in PINNED.values())


def test_the_pins_name_no_registry():
    assert [name for name, entry in PINNED.items() if "resolved" in entry] == []
    assert "://" not in (assets.PINS / "package-lock.json").read_text()


def test_what_is_served_comes_from_dependencies_and_what_tests_use_does_not():
    assert {package for package, _ in assets.SERVED_FILES.values()} == set(DECLARED["dependencies"])
    assert {package for package, _ in assets.TEST_FILES.values()} == set(DECLARED["devDependencies"])


def test_all_scripts_together_are_small():
    scripts = list((ROOT / "console" / "static").rglob("*.js"))
    assert sum(path.stat().st_size for path in scripts) <= SCRIPT_LIMIT_BYTES


@pytest.fixture
def modules(tmp_path):
    for package, path in assets.SERVED_FILES.values():
        file = tmp_path / "node_modules" / package / path
        file.parent.mkdir(parents=True)
        file.write_text(f"// {package}")
        (tmp_path / "node_modules" / package / "package.json").write_text('{"version": "1.2.3"}')
        (tmp_path / "node_modules" / package / "LICENSE").write_text(f"licence of {package}")
    return tmp_path / "node_modules"


def test_files_are_copied_with_their_licences_and_old_files_go(modules, tmp_path):
    target = tmp_path / "static" / "vendor"
    target.mkdir(parents=True)
    (target / "old.js").write_text("// of an earlier version")
    assets.copy(modules, assets.SERVED_FILES, target)
    assert {path.name for path in target.iterdir()} == {*assets.SERVED_FILES, "LICENSES.txt"}
    assert (target / "idiomorph.min.js").read_text() == "// idiomorph"
    licences = (target / "LICENSES.txt").read_text()
    assert all(f"{package} 1.2.3\n\nlicence of {package}" in licences for package, _ in assets.SERVED_FILES.values())
    assert [path.name for path in target.parent.iterdir()] == ["vendor"]


def test_a_missing_npm_is_an_error_with_a_remedy(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert assets.main() == 1
    assert "apt-get install npm" in capsys.readouterr().err
