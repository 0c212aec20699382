"""The files of a release, and the top-level names that the wheel claims."""

import hashlib
import importlib.metadata
import re
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NAMES = {"berthmaster", "berthmaster_cli", "certs", "console", "extender", "webhook"}


@pytest.fixture
def release(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))
    import release  # noqa: PLC0415

    return release


UNRELEASED = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [0.0.9]\n\n- old\n"
RELEASED = "## [Unreleased]\n\n## [0.1.0] - 2026-12-01\n\n- new\n"


@pytest.mark.parametrize("changelog", [UNRELEASED, RELEASED], ids=["not released yet", "released"])
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
