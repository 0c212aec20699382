"""What a release contains."""

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
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
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def installed(tmp_path):
    """The path of the plugin after krew has unpacked an archive: a link to the launcher."""
    library = tmp_path / "library"
    package = library / VERSION / "berthmaster_cli"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "main.py").write_text("import sys\ndef run_plugin(): print('plugin', *sys.argv[1:])\n")
    archive.pack(library, tmp_path / "plugin.tar.gz")
    store = tmp_path / "store"
    with tarfile.open(tmp_path / "plugin.tar.gz") as tar:
        # Python 3.11.3 and older know no filter, and 3.13 warns without one.
        tar.extractall(store, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # noqa: S202 - ours
    (tmp_path / "bin").mkdir()
    link = tmp_path / "bin" / "kubectl-berthmaster"
    link.symlink_to(Path("..") / "store" / "kubectl-berthmaster")
    return link


def start(path, *args, **environ):
    env = {**os.environ, "PYTHONPATH": "", **environ}
    return subprocess.run([path, *args], env=env, capture_output=True, text=True, check=False)  # noqa: S603 - ours


def with_python(folder, text):
    """A PATH whose python3 is a script."""
    (folder / "python3").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "python3").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_the_launcher_starts_the_plugin_from_its_own_folder(installed, tmp_path):
    path = with_python(tmp_path, f'exec {sys.executable} "$@"')
    result = start(installed, "explain", "deploy/web shop", PATH=path)
    assert (result.stdout, result.returncode) == ("plugin explain deploy/web shop\n", 0), result.stderr


@cases(
    ("python", "message"),
    {
        "an old Python": ("echo 3.9", "this archive has no packages for Python 3.9; it has: "),
        "no Python": ("exit 127", "needs Python 3.11 or newer"),
    },
)
def test_the_launcher_says_which_python_it_needs(installed, tmp_path, python, message):
    result = start(installed, PATH=with_python(tmp_path, python))
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr


def test_two_archives_of_one_release_are_equal(tmp_path):
    library = tmp_path / "library"
    (library / VERSION).mkdir(parents=True)
    (library / VERSION / "module.py").write_text("")
    first = archive.pack(library, tmp_path / "a.tar.gz", 5)
    os.utime(library / VERSION / "module.py", (1, 1))
    assert archive.pack(library, tmp_path / "b.tar.gz", 5) == first


def test_the_manifest_has_the_form_that_krew_validates():
    checksums = {platform: f"{number:064x}" for number, platform in enumerate(archive.PLATFORMS, 1)}
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
        if isinstance(option, click.Option):
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
    assert {name: archive.PLATFORMS[name] for name in wheels.PLATFORMS} == wheels.PLATFORMS
