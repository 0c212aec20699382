"""krew's manifest, the archives that it names, and the launcher inside them."""

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from berthmaster.version import __version__

KREW = Path(__file__).parents[3] / "packaging" / "krew"
TEMPLATE = (KREW / "berthmaster.yaml").read_text()
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(scope="module")
def archive():
    spec = importlib.util.spec_from_file_location("krew_archive", KREW / "archive.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def installed(archive, tmp_path):
    """The path of the plugin after krew has unpacked an archive: a link to the launcher."""
    library = tmp_path / "library"
    package = library / VERSION / "berthmaster_cli"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "kubectl.py").write_text("import sys\ndef run_plugin(): print('plugin', *sys.argv[1:])\n")
    archive.pack(library, tmp_path / "plugin.tar.gz")
    store = tmp_path / "store"
    with tarfile.open(tmp_path / "plugin.tar.gz") as tar:
        tar.extractall(store)  # noqa: S202 - our own archive; Python 3.11.3 and older know no filter
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


@pytest.mark.parametrize(
    ("python", "message"),
    [
        pytest.param("echo 3.9", "this archive has no packages for Python 3.9; it has: ", id="an old Python"),
        pytest.param("exit 127", "needs Python 3.11 or newer", id="no Python"),
    ],
)
def test_the_launcher_says_which_python_it_needs(installed, tmp_path, python, message):
    result = start(installed, PATH=with_python(tmp_path, python))
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr


def test_two_archives_of_one_release_are_equal(archive, tmp_path):
    library = tmp_path / "library"
    (library / VERSION).mkdir(parents=True)
    (library / VERSION / "module.py").write_text("")
    first = archive.pack(library, tmp_path / "a.tar.gz", 5)
    os.utime(library / VERSION / "module.py", (1, 1))
    assert archive.pack(library, tmp_path / "b.tar.gz", 5) == first


def test_the_manifest_has_the_form_that_krew_validates(archive):
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
