"""What a release contains."""

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
import yaml
from programs import program
from tables import cases

from berthmaster.version import __version__
from berthmaster_cli.main import COMMANDS, main

ROOT = Path(__file__).parents[3]
NAMES = {"berthmaster", "berthmaster_cli", "certs", "console", "extender", "webhook"}


@pytest.fixture
def release(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))
    import release  # noqa: PLC0415

    return release


UNRELEASED = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [0.0.9]\n\n- old\n"
RELEASED = "## [Unreleased]\n\n## [0.1.0] - 2026-12-01\n\n- new\n"


@cases("changelog", {"not released yet": UNRELEASED, "released": RELEASED})
def test_the_notes_are_the_part_of_the_changelog_about_the_version(release, changelog):
    assert release.notes(changelog, "0.1.0") == "# Berthmaster 0.1.0\n\n- new\n"


def test_a_packed_chart_has_all_files_and_equal_bytes_for_equal_times(release, tmp_path):
    listed = release.image.git("ls-files", release.CHART).split()
    for name in ("one.tgz", "two.tgz"):
        release.write_chart(listed, tmp_path / name, 1_700_000_000)
    assert (tmp_path / "one.tgz").read_bytes() == (tmp_path / "two.tgz").read_bytes()
    with tarfile.open(tmp_path / "one.tgz") as archive:
        assert archive.getnames()[0] == "berthmaster/Chart.yaml"
        assert len(archive.getnames()) == len(listed)


def test_checksums_are_listed_as_sha256sum_reads_them(release, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"content")
    (tmp_path / "SHA256SUMS").touch()
    assert release.checksums(tmp_path) == f"{hashlib.sha256(b'content').hexdigest()}  folder/file\n"


def test_no_dependency_owns_a_top_level_name_of_the_wheel():
    """Every installed distribution counts: run, optional, development and e2e pins."""
    pinned = set()
    for file in (ROOT / "requirements").glob("*.txt"):
        pinned |= set(re.findall(r"^([A-Za-z0-9._-]+)==", file.read_text(), re.MULTILINE))
    assert not {name.lower().replace("-", "_") for name in pinned} & NAMES
    owners = importlib.metadata.packages_distributions()
    found = {name: set(owners.get(name, ())) - {"berthmaster"} for name in NAMES}
    assert not any(found.values()), found


SCRIPT_LIMIT_BYTES = 200_000

assets = program("packaging/console_assets.py")
archive = program("packaging/krew/archive.py")
zipapp = program("packaging/zipapp/build.py")
wheels = program("packaging/wheels.py")
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


TEMPLATE = (ROOT / "packaging" / "krew" / "berthmaster.yaml").read_text()


def test_an_archive_holds_the_file_of_its_platform_as_the_plugin(tmp_path):
    zipapp = tmp_path / "berthmaster-linux-amd64.pyz"
    zipapp.write_bytes(b"#!/usr/bin/env python3\n")
    checksum = archive.pack(zipapp, tmp_path / "a.tar.gz", 5)
    os.utime(zipapp, (1, 1))
    assert archive.pack(zipapp, tmp_path / "b.tar.gz", 5) == checksum
    with tarfile.open(tmp_path / "a.tar.gz") as tar:
        assert [(each.name, each.mode, each.mtime) for each in tar] == [
            ("kubectl-berthmaster", 0o755, 5), ("LICENSE", 0o644, 5),
        ]  # fmt: skip
        assert tar.extractfile("kubectl-berthmaster").read() == zipapp.read_bytes()


def test_a_release_has_an_archive_for_each_platform(tmp_path):
    for platform in zipapp.PLATFORMS:
        (tmp_path / f"berthmaster-{platform}.pyz").write_text(platform)
    archive.main(["--version=1.2.3", "--repository=https://example.org", str(tmp_path)])
    found = {each.name for each in tmp_path.glob("*.tar.gz")}
    assert found == {f"kubectl-berthmaster-{platform}.tar.gz" for platform in zipapp.PLATFORMS}
    for each in yaml.safe_load((tmp_path / "berthmaster.yaml").read_text())["spec"]["platforms"]:
        file = tmp_path / each["uri"].rpartition("/")[2]
        assert hashlib.sha256(file.read_bytes()).hexdigest() == each["sha256"]


def test_the_pins_of_a_platform_replace_those_of_all():
    every, own = zipapp.pins("linux-amd64"), zipapp.pins("darwin-amd64")
    assert len(re.findall(r"^cryptography==", own, re.MULTILINE)) == 1
    names = [re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE) for text in (every, own)]
    assert sorted(names[0]) == sorted(names[1])
    assert "cryptography==48.0.1" in own


def test_the_manifest_has_the_form_that_krew_validates():
    checksums = {platform: f"{number:064x}" for number, platform in enumerate(zipapp.PLATFORMS, 1)}
    plugin = yaml.safe_load(archive.manifest(TEMPLATE, "1.2.3", "https://example.org/berthmaster/", checksums))
    assert (plugin["apiVersion"], plugin["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert re.fullmatch(r"[a-z0-9-]+", plugin["metadata"]["name"])
    spec = plugin["spec"]
    assert spec["version"] == "v1.2.3"
    assert len(spec["shortDescription"]) <= 55
    assert {each["sha256"] for each in spec["platforms"]} == {*checksums.values()}
    for each in spec["platforms"]:
        assert each.keys() == {"selector", "uri", "sha256", "files", "bin"}
        assert re.fullmatch(r"https://example\.org/berthmaster/releases/download/v1\.2\.3/\S+\.tar\.gz", each["uri"])
        assert each["bin"] == "kubectl-berthmaster"
        labels = each["selector"]["matchLabels"]
        assert f"{labels['os']}-{labels['arch']}" in each["uri"]


def test_the_template_has_the_current_version():
    assert yaml.safe_load(TEMPLATE)["spec"]["version"] == f"v{__version__}"


man_pages = program("packaging/man_pages.py")
PAGES = man_pages.pages()


def test_each_command_has_a_page():
    assert PAGES.keys() == {"berthmaster.1", *(f"berthmaster-{name}.1" for name in (*COMMANDS, "completion"))}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_has_every_option_of_its_command(name):
    command = main.get_command(click.Context(main), name)
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert option.opts[-1].replace("-", "\\-") in PAGES[f"berthmaster-{name}.1"]


def test_a_table_is_a_list_with_defaults():
    table = "| Option | Default | Meaning |\n|---|---|---|\n| `-o`, `--out A\\|B` | `A` | Write. |\n"
    text = man_pages.page("a", f"# a\n\nDo it. Always.\n\n{table}")
    assert ".SH NAME\na \\- Do it\n" in text
    assert text.endswith(".TP\n\\fB\\-o\\fR, \\fB\\-\\-out A|B\\fR\nWrite. Default: \\fBA\\fR.\n")


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_roff_reads_the_pages_without_a_warning():
    for name, text in PAGES.items():
        done = subprocess.run(
            ["groff", "-man", "-ww", "-Tutf8", "-z"],  # noqa: S607 - the groff of the PATH
            input=text, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), name


@cases(
    ("code", "errors", "expected"),
    {
        "all exist": (0, "", ""),
        "one is missing": (1, "ERROR: No matching distribution found for numpy==9\nnotice: upgrade\n",
            "ERROR: No matching distribution found for numpy==9"),
        "without a message": (1, "", "pip failed"),
    },
)  # fmt: skip
def test_a_missing_wheel_is_reported(monkeypatch, code, errors, expected):
    asked: list[str] = []
    result = SimpleNamespace(returncode=code, stderr=errors)
    monkeypatch.setattr(subprocess, "run", lambda command, **_: asked.extend(command) or result)
    assert wheels.missing(Path("pins.txt"), "linux-arm64", "3.13") == expected
    assert {"--only-binary=:all:", "--dry-run", "--python-version=3.13", "--platform=manylinux_2_28_aarch64"} <= set(
        asked
    )


def test_the_platforms_are_those_of_the_plugin():
    assert {name: zipapp.PLATFORMS[name] for name in wheels.PLATFORMS} == wheels.PLATFORMS
