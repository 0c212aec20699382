"""Write a release to dist/: wheel, sdist, image, chart, kubectl plugin, notes and checksums, all of one commit.

    python packaging/release.py [--repository URL] [--platform amd64 arm64]

The checkout must be clean. All times are that of the commit, so two runs write the same bytes. ``make release`` runs
this script. Without ``--repository``, the archives and the manifest for krew are left out: they name it.
"""

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import debian
import statements

import image

ROOT: Final = Path(__file__).resolve().parents[1]
CHART: Final = "charts/berthmaster"


def write_distributions(output: Path) -> None:
    """Build wheel and sdist with the pinned builder."""
    with tempfile.TemporaryDirectory() as work:
        python = str(Path(work) / "bin" / "python")
        image.install.run(sys.executable, "-m", "venv", work)
        pins = f"--requirement={ROOT / 'requirements' / 'build.txt'}"
        image.install.run(python, "-m", "pip", "--quiet", "install", "--require-hashes", "--only-binary=:all:", pins)
        image.install.run("env", f"--chdir={ROOT}", python, "-m", "hatchling", "build", "--directory", str(output))


def write_chart(files: Iterable[str], file: Path, epoch: int) -> None:
    """Pack the chart as `helm package` does, with the time of the commit.

    Args:
        files: the files of the chart, from the root of the repository.
        file: the archive to write.
        epoch: the time of all files.
    """
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in sorted(files, key=lambda each: (each != f"{CHART}/Chart.yaml", each)):
            content = (ROOT / name).read_bytes()
            entry = tarfile.TarInfo(name.removeprefix("charts/"))
            entry.size, entry.mtime, entry.mode = len(content), epoch, 0o644
            archive.addfile(entry, io.BytesIO(content))
    file.write_bytes(gzip.compress(tar.getvalue(), compresslevel=9, mtime=0))


def notes(changelog: str, version: str) -> str:
    """Return the part of the changelog about a version, or about what is not released yet."""
    for heading in (rf"\[{re.escape(version)}\][^\n]*", r"\[Unreleased\]"):
        if found := re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL):
            return f"# Berthmaster {version}\n{found[1].rstrip()}\n"
    raise image.install.InstallError(f"CHANGELOG.md has no heading for {version}: add `## [{version}] - DATE`")


def checksums(folder: Path) -> str:
    """Return the SHA-256 of each file below a folder, as `sha256sum --check` reads them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "SHA256SUMS")
    return "".join(f"{_sha256(path)}  {path.relative_to(folder)}\n" for path in files)


def release(output: Path, facts: statements.Facts, platforms: list[str], repository: str) -> None:
    """Write all files of the release of a commit."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    write_distributions(output)
    files = image.git("ls-files", CHART).split()
    write_chart(files, output / f"berthmaster-chart-{facts.version}.tgz", facts.epoch)
    (output / "RELEASE-NOTES.md").write_text(notes((ROOT / "CHANGELOG.md").read_text(), facts.version))
    image.build_all(platforms, output, facts)
    [wheel] = output.glob("*.whl")
    image.install.run(
        sys.executable, str(ROOT / "packaging" / "zipapp" / "build.py"), f"--wheel={wheel}", f"--output={output}",
        "--platform=all",
    )  # fmt: skip
    if repository:
        script = str(ROOT / "packaging" / "krew" / "archive.py")
        arguments = (f"--version={facts.version}", f"--repository={repository}", f"--time={facts.epoch}", str(output))
        image.install.run(sys.executable, script, *arguments)
    (output / "SHA256SUMS").write_text(checksums(output))


def main() -> int:
    """Write the release; 1 if the checkout is not clean or a step failed."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--repository", default="", metavar="URL")
    parser.add_argument("--platform", nargs="+", choices=("amd64", "arm64"), default=["amd64", "arm64"])
    given = parser.parse_args()
    facts = image.commit()
    if facts.changed:
        sys.stderr.write("release: the checkout has changes: commit them, because a release is of one commit\n")
        return 1
    os.environ["SOURCE_DATE_EPOCH"] = str(facts.epoch)
    try:
        release(ROOT / "dist", facts, given.platform, given.repository)
    except (debian.DebianError, image.install.InstallError) as problem:
        sys.stderr.write(f"release: {problem}\n")
        return 1
    return 0


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


if __name__ == "__main__":
    sys.exit(main())
