"""Release 0.1.0, which is a commit of this repository."""

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Final

import pytest

VERSION: Final = "0.1.0"
_COMMIT: Final = "0a7aa4aa00e0eca54a55145b4dc1235ffd57a0e4"
_ROOT: Final = Path(__file__).parents[2]
_LIMIT_S: Final = 90.0


def unpacked(folder: Path) -> Path:
    """Write the sources of the release to a folder, and return it. Without the git history the test is skipped."""
    try:
        archive = _git("archive", _COMMIT)
    except (OSError, subprocess.CalledProcessError):
        shallow = not (_ROOT / ".git").exists() or _git("rev-parse", "--is-shallow-repository").strip() == b"true"
        if not shallow:
            raise
        pytest.skip(f"the git history with release {VERSION} is not here: a source archive, or a shallow clone")
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        # Python 3.11.3 and older, such as Debian 12's, know no filters. The archive is our own.
        packed.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # noqa: S202
    return folder


def _git(*words: str) -> bytes:
    done = subprocess.run(["git", *words], cwd=_ROOT, capture_output=True, timeout=_LIMIT_S, check=True)
    return done.stdout
