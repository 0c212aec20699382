"""The command as one file: equal bytes, unpacked once, and the packages of the Python that runs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
VERSION = ".".join(map(str, sys.version_info[:2]))
ENTRY = """\
import os, sys
def berthmaster(): print("command", sys.argv[1:], os.environ["BERTHMASTER_ZIPAPP"])
def plugin(): print("plugin", sys.argv[1:])
"""


@pytest.fixture
def build(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "packaging" / "zipapp"))
    import build  # noqa: PLC0415

    return build


@pytest.fixture
def library(tmp_path):
    package = tmp_path / "library" / "berthmaster_cli"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "entry.py").write_text(ENTRY)
    for each in ("RECORD", "direct_url.json"):
        (tmp_path / "library" / each).write_text(str(tmp_path))
    return package.parent


def run(file, cache, *words):
    done = subprocess.run(  # noqa: S603 - the file of this test
        [sys.executable, file, *words],
        env={"XDG_CACHE_HOME": str(cache), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_two_builds_are_equal(build, library, tmp_path):
    files = tmp_path / "a.pyz", tmp_path / "b.pyz"
    assert len({build.write({VERSION: library, "3.99": library}, file) for file in files}) == 1
    assert str(tmp_path).encode() not in files[0].read_bytes()


def test_the_file_unpacks_once_and_runs_the_command(build, library, tmp_path):
    file, cache = tmp_path / "berthmaster.pyz", tmp_path / "cache"
    build.write({VERSION: library}, file)
    assert run(file, cache, "a", "b") == (0, f"command ['a', 'b'] {file}\n")
    (folder,) = (cache / "berthmaster" / "zipapp").iterdir()
    (folder / "berthmaster_cli" / "entry.py").write_text(ENTRY.replace("command", "cached"))
    assert run(file, cache, "a")[1].startswith("cached")


def test_the_file_is_the_plugin_of_kubectl_by_its_name(build, library, tmp_path):
    file = tmp_path / "kubectl-berthmaster"
    build.write({VERSION: library}, file)
    assert run(file, tmp_path / "cache", "explain") == (0, "plugin ['explain']\n")


def test_another_python_is_named(build, library, tmp_path):
    file = tmp_path / "berthmaster.pyz"
    build.write({"3.99": library}, file)
    code, said = run(file, tmp_path / "cache")
    assert (code, said) == (1, f"berthmaster: berthmaster.pyz has packages for Python 3.99, and not for {VERSION}\n")


def test_a_cache_that_cannot_be_written_is_named(build, library, tmp_path):
    file, cache = tmp_path / "berthmaster.pyz", tmp_path / "cache"
    build.write({VERSION: library}, file)
    cache.write_text("no folder")
    code, said = run(file, cache)
    assert code == 1
    assert "set XDG_CACHE_HOME to a folder for its packages" in said
