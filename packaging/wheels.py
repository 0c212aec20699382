"""Check that a wheel of every dependency exists for each platform and Python version.

    python packaging/wheels.py [--python 3.11 ...] [--platform linux-arm64 ...]

pip resolves the pins of ``requirements/image.txt`` for the platform, by their hashes and without building anything.
Nothing is installed. pip uses the index that it is configured for.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PYTHON_VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS: Final = {
    "linux-amd64": ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    "linux-arm64": ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
}
_TIMEOUT_S: Final = 600


def missing(requirements: Path, platform: str, version: str) -> str:
    """Return why the pins cannot be installed from wheels; empty if they can.

    Args:
        requirements: a file of pins with hashes.
        platform: a name of ``PLATFORMS``.
        version: the Python version, as ``3.13``.
    """
    tags = [f"--platform={tag}" for tag in PLATFORMS[platform]]
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--dry-run"),
            *("--ignore-installed", "--no-deps", "--only-binary=:all:", "--target", folder),
            *(*tags, f"--python-version={version}", "--requirement", str(requirements)),
        ]
        result = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)  # noqa: S603
    if not result.returncode:
        return ""
    lines = [line.strip() for line in result.stderr.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if "ERROR" in line), lines[-1] if lines else "pip failed")


def main() -> int:
    """Check all combinations, print one line for each, and return 1 if any is incomplete."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--python", nargs="+", default=PYTHON_VERSIONS, metavar="VERSION")
    parser.add_argument("--platform", nargs="+", default=tuple(PLATFORMS), choices=tuple(PLATFORMS))
    parser.add_argument("--requirements", type=Path, default=ROOT / "requirements" / "image.txt")
    given = parser.parse_args()
    incomplete = False
    for platform in given.platform:
        for version in given.python:
            problem = missing(given.requirements, platform, version)
            incomplete = incomplete or bool(problem)
            sys.stdout.write(f"{platform} Python {version}: {problem or 'a wheel of every dependency exists'}\n")
            sys.stdout.flush()
    return int(incomplete)


if __name__ == "__main__":
    sys.exit(main())
