"""Fetch the scripts of the console from the npm registry and copy them into the package.

    python packaging/console_assets.py

`console/assets/package-lock.json` pins each package by its version and its checksum. npm checks the checksums. No
script of a package runs. The files go to `console/static/vendor`, with a page of their licences. The file for tests,
axe-core, goes to `tests/e2e/console/vendor` and is no part of any package of Berthmaster. Both folders are replaced as
a whole.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PINS: Final = ROOT / "console" / "assets"
SERVED: Final = ROOT / "console" / "static" / "vendor"
FOR_TESTS: Final = ROOT / "tests" / "e2e" / "console" / "vendor"
NPM_LIMIT_S: Final = 300

# By the name that the console serves: the package and the file in it.
SERVED_FILES: Final = {"idiomorph.min.js": ("idiomorph", "dist/idiomorph.min.js")}
TEST_FILES: Final = {"axe.min.js": ("axe-core", "axe.min.js")}


class AssetsError(Exception):
    """The files cannot be fetched. The message says why and what to do."""


def install(folder: Path, pins: Path = PINS) -> Path:
    """Install the packages that a folder pins into another folder, without running their scripts.

    Returns:
        The folder ``node_modules``.

    Raises:
        AssetsError: npm is missing or fails.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise AssetsError("npm is not on the PATH; install Node.js with npm (Debian: apt-get install npm)")
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(pins / name, folder / name)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments
            command, cwd=folder, capture_output=True, text=True, timeout=NPM_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise AssetsError(f"npm ci took longer than {NPM_LIMIT_S} s; is the registry reachable?") from None
    if done.returncode:
        raise AssetsError(f"npm ci failed; is the registry reachable?\n{done.stderr.strip()}")
    return folder / "node_modules"


def copy(modules: Path, files: Mapping[str, tuple[str, str]], target: Path) -> None:
    """Replace a folder by files of packages and a page with the licences of these packages.

    Args:
        modules: the folder ``node_modules``.
        files: the package and the path in it, by the name in the target.
        target: the folder. It is replaced as a whole, or stays as it is.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=target.parent, prefix=".vendor-"))
    new.chmod(0o755)
    for name, (package, path) in files.items():
        shutil.copyfile(modules / package / path, new / name)
    pages = []
    for package in dict.fromkeys(package for package, _ in files.values()):
        version = json.loads((modules / package / "package.json").read_text())["version"]
        pages.append(f"{package} {version}\n\n{(modules / package / 'LICENSE').read_text().strip()}\n")
    # The last file: make takes its presence as the sign that the folder is complete.
    (new / "LICENSES.txt").write_text(f"\n{'-' * 80}\n\n".join(pages))
    shutil.rmtree(target, ignore_errors=True)
    new.rename(target)


def main() -> int:
    """Fetch and copy all files; print what went wrong.

    Returns:
        The exit code: 1 if a file is missing.
    """
    try:
        with tempfile.TemporaryDirectory() as folder:
            modules = install(Path(folder))
            copy(modules, SERVED_FILES, SERVED)
            copy(modules, TEST_FILES, FOR_TESTS)
    except (AssetsError, OSError) as problem:
        print(f"console assets: {problem}", file=sys.stderr)  # noqa: T201 - the output of a script
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
