"""Build the archives of the kubectl plugin and the manifest of krew that names them.

    python packaging/krew/archive.py --version 0.2.0 --repository https://... dist

An archive holds the licence and the file of ``make zipapp`` for its platform, which is the plugin by its name. Files
have fixed owners, modes and times, so that two builds of one commit are equal.
"""

import argparse
import gzip
import hashlib
import io
import re
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
PLUGIN: Final = "kubectl-berthmaster"
_CHECKSUM: Final = re.compile(r'(uri: \S+-(?P<platform>[a-z]+-[a-z0-9]+)\.tar\.gz\n\s+sha256: )"[0-9a-f]{64}"')


def pack(zipapp: Path, archive: Path, modified_s: int = 0) -> str:
    """Write an archive with the plugin and the licence. Return its checksum.

    Args:
        zipapp: the file of ``make zipapp`` for the platform.
        archive: the file to write.
        modified_s: the time of all files, in seconds since 1970.
    """
    data = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=data, mode="wb", mtime=modified_s) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as tar,
    ):
        for path, name, mode in ((zipapp, PLUGIN, 0o755), (ROOT / "LICENSE", "LICENSE", 0o644)):
            content = path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), modified_s, mode
            tar.addfile(entry, io.BytesIO(content))
    archive.write_bytes(data.getvalue())
    return hashlib.sha256(data.getvalue()).hexdigest()


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
    parser.add_argument("--version", required=True, help="the version of this release")
    parser.add_argument("--repository", required=True, metavar="URL", help="the repository that holds the release")
    parser.add_argument(
        "--time", type=int, default=0, metavar="SECONDS", help="the time of all files, as in SOURCE_DATE_EPOCH"
    )
    parser.add_argument("folder", type=Path, help="where the files of `make zipapp` are, and where to write")
    given = parser.parse_args(None if arguments is None else list(arguments))
    template, checksums = (HERE / "berthmaster.yaml").read_text(), {}
    for platform in (each["platform"] for each in _CHECKSUM.finditer(template)):
        archive = given.folder / f"{PLUGIN}-{platform}.tar.gz"
        checksums[platform] = pack(given.folder / f"berthmaster-{platform}.pyz", archive, given.time)
    (given.folder / "berthmaster.yaml").write_text(manifest(template, given.version, given.repository, checksums))


if __name__ == "__main__":
    main()
