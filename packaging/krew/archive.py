"""Build the archives of the kubectl plugin and the manifest of krew that names them.

    python packaging/krew/archive.py --wheel dist/berthmaster-0.2.0-py3-none-any.whl --repository https://... dist

An archive holds the launcher, the licence, and for each Python version the packages of ``requirements/run.txt`` as
wheels unpacked by pip. Nothing is compiled and nothing of this machine goes into it: pip is asked for the wheels of the
platform, and files have fixed owners, modes and times, so that two builds of one commit are equal.
"""

import argparse
import gzip
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
PYTHON_VERSIONS: Final = ("3.11", "3.12", "3.13")
PLATFORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "linux-amd64": ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    "linux-arm64": ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
    "darwin-arm64": ("macosx_14_0_arm64", "macosx_11_0_arm64", "macosx_11_0_universal2", "macosx_10_9_universal2"),
}
_CHECKSUM: Final = re.compile(r'(uri: \S+-(?P<platform>[a-z]+-[a-z0-9]+)\.tar\.gz\n\s+sha256: )"[0-9a-f]{64}"')


def install(wheel: Path, platform: str, version: str, folder: Path) -> None:
    """Unpack the wheels of a platform and a Python version into a folder."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--no-compile", "--target", folder]
    target = [f"--platform={tag}" for tag in PLATFORMS[platform]] + [f"--python-version={version}"]
    subprocess.run([*pip, *target, "--requirement", ROOT / "requirements" / "run.txt"], check=True)  # noqa: S603
    subprocess.run([*pip, *target, "--no-deps", "--upgrade", wheel], check=True)  # noqa: S603 - pip of this interpreter


def pack(library: Path, archive: Path, modified_s: int = 0) -> str:
    """Write an archive with the launcher and a folder of packages for each Python version. Return its checksum.

    Args:
        library: the folder, with one subfolder for each Python version.
        archive: the file to write.
        modified_s: the time of all files, in seconds since 1970.
    """
    files = [
        (HERE / "kubectl-berthmaster", "kubectl-berthmaster"),
        (ROOT / "LICENSE", "LICENSE"),
        *((path, f"lib/{path.relative_to(library).as_posix()}") for path in sorted(library.rglob("*"))),
    ]
    data = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=data, mode="wb", mtime=modified_s) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as tar,
    ):
        for path, name in files:
            if path.is_file():
                _add(tar, path, name, modified_s)
    archive.write_bytes(data.getvalue())
    return hashlib.sha256(data.getvalue()).hexdigest()


def _add(tar: tarfile.TarFile, path: Path, name: str, modified_s: int) -> None:
    content = path.read_bytes()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime = len(content), modified_s
    entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
    tar.addfile(entry, io.BytesIO(content))


def manifest(template: str, version: str, repository: str, checksums: Mapping[str, str]) -> str:
    """Return krew's manifest with the version, the repository and the checksums of a release.

    Args:
        template: the text of ``berthmaster.yaml``.
        version: the version, without ``v``.
        repository: the URL of the repository that holds the release.
        checksums: the checksum of each platform's archive.
    """
    text = re.sub(r"\bv\d+\.\d+\.\d+\b", f"v{version}", template)
    text = text.replace("REPOSITORY", repository.rstrip("/"))
    return _CHECKSUM.sub(lambda found: f'{found[1]}"{checksums[found["platform"]]}"', text)


def main(arguments: Iterable[str] | None = None) -> None:
    """Build the archives and the manifest."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--wheel", type=Path, required=True, help="the wheel of this release")
    parser.add_argument("--repository", required=True, metavar="URL", help="the repository that holds the release")
    parser.add_argument(
        "--time", type=int, default=0, metavar="SECONDS", help="the time of all files, as in SOURCE_DATE_EPOCH"
    )
    parser.add_argument("folder", type=Path, help="where to write")
    given = parser.parse_args(None if arguments is None else list(arguments))
    version = given.wheel.name.split("-")[1]
    checksums = {}
    for platform in PLATFORMS:
        with tempfile.TemporaryDirectory() as library:
            for python in PYTHON_VERSIONS:
                install(given.wheel, platform, python, Path(library, python))
            name = f"kubectl-berthmaster-{platform}.tar.gz"
            checksums[platform] = pack(Path(library), given.folder / name, given.time)
    text = manifest((HERE / "berthmaster.yaml").read_text(), version, given.repository, checksums)
    (given.folder / "berthmaster.yaml").write_text(text)


if __name__ == "__main__":
    main()
