"""Build the command as one file, which needs Python and no pip.

    python packaging/zipapp/build.py [--platform linux-amd64] [--python 3.11 3.12] [--output dist]

The file holds the packages of ``requirements/run.txt`` and the wheel of this checkout for each version of Python, each
content once. Nothing of this machine goes into it, and files have no times, so that two builds of one commit are equal.
"""

import argparse
import hashlib
import io
import json
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
PYTHON_VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "linux-amd64": ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    "linux-arm64": ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
    "darwin-amd64": (
        "macosx_14_0_x86_64", "macosx_11_0_x86_64", "macosx_10_15_x86_64", "macosx_10_13_x86_64", "macosx_10_12_x86_64",
        "macosx_10_9_x86_64", "macosx_11_0_universal2", "macosx_10_13_universal2", "macosx_10_9_universal2",
    ),
    "darwin-arm64": (
        "macosx_14_0_arm64", "macosx_11_0_arm64", "macosx_11_0_universal2", "macosx_10_13_universal2",
        "macosx_10_9_universal2",
    ),
}  # fmt: skip
"""The tags of the wheels that a platform runs."""
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)
_DROPPED: Final = ("RECORD", "direct_url.json", "INSTALLER", "REQUESTED")
"""Files that pip writes about the installation."""
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def this_platform() -> str:
    """Return the name of the platform of this machine."""
    return f"{platform.system().lower()}-{_MACHINES.get(platform.machine(), platform.machine())}"


def wheel_of(folder: Path) -> Path:
    """Build the wheel of the checkout into a folder."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "wheel", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", folder, ROOT], check=True)  # noqa: S603 - pip of this interpreter
    [wheel] = folder.glob("*.whl")
    return wheel


def pins(platform_name: str) -> str:
    """Return the pins of a platform: those of ``requirements/run.txt``, unless a file of the platform replaces one."""
    found, own = (ROOT / "requirements" / "run.txt").read_text(), HERE / f"{platform_name}.txt"
    if not own.exists():
        return found
    replaced = own.read_text()
    for name in re.findall(r"^([a-z0-9-]+)==", replaced, re.MULTILINE):
        found = re.sub(rf"^{re.escape(name)}==.*\n(?: .*\n)*", "", found, flags=re.MULTILINE)
    return f"{found}\n{replaced}"


def install(wheel: Path, platform_name: str, version: str, folder: Path) -> None:
    """Unpack the wheels of a platform and a version of Python into a folder. Nothing is compiled."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--no-compile", "--target", folder]
    target = [f"--platform={tag}" for tag in PLATFORMS[platform_name]] + [f"--python-version={version}"]
    with tempfile.TemporaryDirectory() as work:
        requirements = Path(work, "requirements.txt")
        requirements.write_text(pins(platform_name))
        subprocess.run([*pip, *target, "--requirement", requirements], check=True)  # noqa: S603 - pip of this interpreter
    subprocess.run([*pip, *target, "--no-deps", "--upgrade", wheel], check=True)  # noqa: S603 - the same


def packaged(library: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a folder of packages, without those that depend on the machine."""
    for path in sorted(library.rglob("*")):
        name = path.relative_to(library).as_posix()
        if path.is_file() and path.suffix != ".pyc" and not name.startswith("bin/") and path.name not in _DROPPED:
            yield name, path.read_bytes()


def write(libraries: Mapping[str, Path], file: Path) -> str:
    """Write the file. ``libraries``: the folder of packages of each version of Python. Return its checksum."""
    versions: dict[str, dict[str, str]] = {}
    blobs: dict[str, bytes] = {}
    for version, library in libraries.items():
        for name, content in packaged(library):
            blob = hashlib.sha256(content).hexdigest()
            versions.setdefault(version, {})[name] = blob
            blobs[blob] = content
    digest = hashlib.sha256(json.dumps(versions, sort_keys=True).encode()).hexdigest()[:16]
    about = json.dumps({"digest": digest, "versions": sorted(versions)}).encode()
    index = json.dumps(versions, sort_keys=True).encode()
    packages = _zipped({"index.json": index, **{f"files/{blob}": blobs[blob] for blob in sorted(blobs)}})
    # Few entries, and the packages as one of them: Python reads the list of entries at each start.
    bootstrap = (HERE / "bootstrap.py").read_bytes()
    outer = {"__main__.py": bootstrap, "about.json": about, "packages.zip": packages}
    data = b"#!/usr/bin/env python3\n" + _zipped(outer, zipfile.ZIP_STORED)
    file.write_bytes(data)
    file.chmod(0o755)
    return hashlib.sha256(data).hexdigest()


def _zipped(entries: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", compression, compresslevel=9) as zipped:
        for name, content in entries.items():
            entry = zipfile.ZipInfo(name, _NO_TIME)
            entry.compress_type = compression
            entry.external_attr = 0o644 << 16
            zipped.writestr(entry, content)
    return data.getvalue()


def build(wheel: Path, target: str, pythons: Sequence[str], file: Path) -> str:
    """Build the file of a platform from the wheel of this release. Return its checksum."""
    with tempfile.TemporaryDirectory() as work:
        libraries = {python: Path(work, python) for python in pythons}
        for python, library in libraries.items():
            install(wheel, target, python, library)
        return write(libraries, file)


def main(arguments: Iterable[str] | None = None) -> None:
    """Build the file of one platform or of several."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--wheel", type=Path, help="the wheel of this release; default: that of the checkout")
    parser.add_argument("--platform", nargs="+", default=[this_platform()], choices=[*sorted(PLATFORMS), "all"])
    parser.add_argument("--python", nargs="+", default=list(PYTHON_VERSIONS), metavar="VERSION")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", metavar="FOLDER", help="where to write")
    given = parser.parse_args(None if arguments is None else list(arguments))
    given.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        wheel = given.wheel or wheel_of(Path(work))
        for target in sorted(PLATFORMS) if "all" in given.platform else given.platform:
            file = given.output / f"berthmaster-{target}.pyz"
            checksum = build(wheel, target, given.python, file)
            print(f"{checksum}  {file}")  # noqa: T201 - a script


if __name__ == "__main__":
    main()
