"""Starts the command from one file: unpacks its packages once into a cache, and runs them. This is its ``__main__``."""

import io
import json
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path


def main() -> None:
    """Run the command; as ``kubectl berthmaster`` if the file is called ``kubectl-berthmaster``."""
    file = Path(sys.argv[0]).resolve()
    try:
        folder = unpacked(file, ".".join(map(str, sys.version_info[:2])))
    except OSError as error:
        place = error.filename or file
        sys.exit(f"berthmaster: {place}: {error.strerror}; set XDG_CACHE_HOME to a folder for its packages")
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    os.environ["BERTHMASTER_ZIPAPP"] = str(file)
    from berthmaster_cli import entry  # noqa: PLC0415 - it is on the path now

    (entry.plugin if file.name.startswith("kubectl-") else entry.berthmaster)()


def unpacked(file: Path, version: str) -> Path:
    """Return the folder with the packages for a version of Python. Several processes may unpack at once."""
    with zipfile.ZipFile(file) as outer:
        about = json.loads(outer.read("about.json"))
        if version not in about["versions"]:
            known = ", ".join(about["versions"])
            sys.exit(f"berthmaster: {file.name} has packages for Python {known}, and not for {version}")
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "berthmaster" / "zipapp"
        folder = root / f"{about['digest']}-{version}"
        if folder.is_dir():
            return folder
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = Path(tempfile.mkdtemp(dir=root))
        with zipfile.ZipFile(io.BytesIO(outer.read("packages.zip"))) as inner:
            for name, blob in json.loads(inner.read("index.json"))[version].items():
                target = made / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(inner.read(f"files/{blob}"))
        try:
            made.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(made)
            if not folder.is_dir():
                raise
    return folder


if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036 - any Python can start the file
        sys.exit("berthmaster needs Python 3.11 or newer")
    main()
