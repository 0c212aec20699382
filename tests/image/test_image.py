"""The image of `make image`: its size, its content, and that a second build has the same digest."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
MAX_UNPACKED = 200e6
MAX_COMPRESSED = 70e6
pytestmark = pytest.mark.skipif(
    not shutil.which("apt-get") or not (DIST / "berthmaster-oci").exists(),
    reason="there is no image in dist/: run `make image` on Debian 12",
)


class Layout:
    """An image layout with one index."""

    def __init__(self, folder):
        self.folder = folder
        [named] = json.loads((folder / "index.json").read_text())["manifests"]
        self.index = named["digest"]
        self.manifests = [self.read(each) for each in self.read(named)["manifests"]]

    def path(self, descriptor):
        return self.folder / "blobs" / "sha256" / descriptor["digest"].removeprefix("sha256:")

    def read(self, descriptor):
        return json.loads(self.path(descriptor).read_text())

    def entries(self):
        for layer in self.manifests[0]["layers"]:
            with tarfile.open(self.path(layer)) as archive:
                yield from archive


@pytest.fixture(scope="module")
def layout():
    return Layout(DIST / "berthmaster-oci")


def test_its_size_stays_below_the_limits(layout):
    assert sum(entry.size for entry in layout.entries()) <= MAX_UNPACKED
    assert sum(each["size"] for each in layout.manifests[0]["layers"]) <= MAX_COMPRESSED


def test_it_has_no_shell_no_package_manager_and_no_program_but_python_and_ours(layout):
    programs = {entry.name for entry in layout.entries() if re.match(r"(usr/|opt/berthmaster/)?s?bin/.", entry.name)}
    ours = {f"opt/berthmaster/bin/{name}" for name in (
        "python", "python3", "berthmaster", "kubectl-berthmaster", "kubectl_complete-berthmaster",
    )}  # fmt: skip
    assert programs == ours | {"usr/bin/python3", "usr/bin/python3.11"}


def test_only_root_owns_files_and_only_tmp_is_writable(layout):
    for entry in layout.entries():
        assert (entry.uid, entry.gid) == (0, 0), entry.name
        assert entry.issym() or not entry.mode & 0o022 or entry.name == "tmp", entry.name
        assert not entry.mode & 0o6000, entry.name


def test_its_settings_are_those_of_the_containerfile(layout):
    settings = layout.read(layout.manifests[0]["config"])["config"]
    assert settings["User"] == "65532:65532"
    assert settings["Entrypoint"] == ["/opt/berthmaster/bin/berthmaster"]
    assert {"org.opencontainers.image.version", "org.opencontainers.image.revision"} <= set(settings["Labels"])
    assert not [each for each in [*settings["Env"], *settings["Labels"].values()] if "$" in each]


def test_its_sbom_lists_every_package_and_is_inside(layout):
    architecture = layout.read(layout.manifests[0]["config"])["architecture"]
    beside = json.loads((DIST / f"berthmaster-image-{architecture}.cdx.json").read_text())
    found = {each["purl"].partition("?")[0] for each in beside["components"]}
    names = [entry.name for entry in layout.entries()]
    assert "opt/berthmaster/share/berthmaster.cdx.json" in names
    for name in names:
        if match := re.search(r"site-packages/([^/]+)-([^/-]+)\.dist-info/METADATA$", name):
            assert f"pkg:pypi/{match[1].lower().replace('_', '-')}@{match[2]}" in found
        elif match := re.search(r"dpkg/status\.d/(.+)$", name):
            assert any(each.startswith(f"pkg:deb/debian/{match[1]}@") for each in found)


def test_a_second_build_has_the_same_digest(layout, tmp_path):
    made = layout.read(layout.manifests[0]["config"])
    build = [sys.executable, str(ROOT / "packaging" / "image.py"), f"--output={tmp_path}"]
    revision = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()
    if made["config"]["Labels"]["org.opencontainers.image.revision"] != revision:
        pytest.skip("the image in dist/ is not of this commit: run `make image` again")
    done = subprocess.run(build, capture_output=True, text=True, timeout=900, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert Layout(tmp_path / "berthmaster-oci").index == layout.index, done.stdout
