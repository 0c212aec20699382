"""The root file system of the image: files of Debian packages, without package manager, shell and documentation.

``image/debian-ARCHITECTURE.lock`` lists the packages with version and checksum. apt of this machine downloads them from
the sources that the machine is configured for, and checks signatures. Nothing is installed, so no root is needed.
"""

import fnmatch
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LOCKS: Final = Path(__file__).resolve().parents[1] / "image"
RELEASE: Final = "Debian 12 (bookworm)"
PACKAGES: Final = (
    "base-files", "ca-certificates", "libbz2-1.0", "libc6", "libexpat1", "libffi8", "libgcc-s1", "liblzma5",
    "libpython3.11-minimal", "libpython3.11-stdlib", "libsqlite3-0", "libssl3", "libstdc++6", "libuuid1",
    "python3.11-minimal", "python3-minimal", "zlib1g",
)  # fmt: skip
"""What Python and the wheels of the dependencies load."""
_LEFT_OUT: Final = (
    "bin/*", "sbin/*", "usr/sbin/*", "var/*", "usr/lib/*/gconv/*", "usr/share/python3/*",
    "usr/share/[!cdp]*", "usr/share/doc-base/*", "usr/share/pixmaps/*", "usr/share/debconf/*", "usr/share/dict/*",
    "usr/share/base-files/*", "usr/share/common-licenses/GFDL*",
    "etc/[!pos]*", "etc/python3*", "etc/profile*", "usr/lib/python3/*", "usr/lib/valgrind/*",
    *(f"usr/lib/python3.11/{name}" for name in (
        "ctypes/macholib/*", "distutils/*", "ensurepip/*", "idlelib/*", "lib2to3/*", "pydoc_data/*", "test/*",
        "tkinter/*",
        "turtledemo/*", "turtle.py", "venv/*", "lib-dynload/_test*", "lib-dynload/_xxtest*",
        "lib-dynload/_curses*", "lib-dynload/_dbm*", "lib-dynload/nis.*", "lib-dynload/readline.*",
        "lib-dynload/_crypt*",
    )),
)  # fmt: skip
"""Files of these packages that no process of the image opens."""
_PROGRAMS: Final = ("usr/bin/python3", "usr/bin/python3.11")
_TIMEOUT_S: Final = 600


class DebianError(Exception):
    """The packages cannot be had. The message names the remedy."""


@dataclass(frozen=True, order=True)
class Package:
    """A package of the lock file."""

    name: str
    version: str
    sha256: str


def lock_file(architecture: str) -> Path:
    """Return the lock file of an architecture, as Debian calls it (``amd64``)."""
    return LOCKS / f"debian-{architecture}.lock"


def locked(architecture: str) -> list[Package]:
    """Read a lock file."""
    lines = lock_file(architecture).read_text().splitlines()
    return [Package(*line.split()) for line in lines if line and not line.startswith("#")]


def write_lock(architecture: str) -> Path:
    """Write the lock file with the versions that the sources of this machine have now.

    Raises:
        DebianError: apt failed.
    """
    with apt(architecture) as (command, folder):
        listed = _run([*command, "download", "--print-uris", *PACKAGES], folder)
    found = re.findall(r"^'\S+' ([^_\s]+)_([^_\s]+)_\S+\.deb \d+ SHA256:([0-9a-f]{64})", listed, re.MULTILINE)
    packages = sorted(Package(name, version.replace("%3a", ":"), checksum) for name, version, checksum in found)
    if len(packages) != len(PACKAGES):
        missing = sorted(set(PACKAGES) - {each.name for each in packages})
        raise DebianError(f"the sources of apt have no {', '.join(missing)}: use a machine with {RELEASE}")
    lines = [f"{each.name} {each.version} {each.sha256}\n" for each in packages]
    head = f"# The packages of {RELEASE} in the image: name, version, SHA-256. `make image-lock` writes this file.\n"
    lock_file(architecture).write_text(head + "".join(lines))
    return lock_file(architecture)


def unpack(architecture: str, root: Path) -> list[Package]:
    """Make the root file system of the packages in the lock file, and return the packages.

    Raises:
        DebianError: a package cannot be had in its version.
    """
    packages = locked(architecture)
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    with apt(architecture) as (command, folder):
        try:
            _run([*command, "download", *(f"{each.name}={each.version}" for each in packages)], folder)
        except DebianError as problem:
            remedy = f"`make image-lock` on a machine with {RELEASE} writes the versions that Debian has now"
            raise DebianError(f"{lock_file(architecture).name} names a version that apt does not find; {remedy}\n{problem}") from None  # noqa: E501 # fmt: skip
        files = {path.name.partition("_")[0]: path for path in folder.glob("*.deb")}
        for package in packages:
            file = files[package.name]
            if hashlib.sha256(file.read_bytes()).hexdigest() != package.sha256:
                raise DebianError(f"{file.name} does not have the checksum of {lock_file(architecture).name}")
            content = folder / f"{package.name}.tar"
            with content.open("wb") as output:
                _run(["dpkg-deb", "--fsys-tarfile", str(file)], folder, output.fileno())
            _run(["tar", "--extract", f"--file={content}", f"--directory={root}", "--keep-directory-symlink",
                  "--no-same-owner"], folder)  # fmt: skip
            # Scanners read the installed packages from here.
            status = root / "var" / "lib" / "dpkg" / "status.d" / package.name
            status.parent.mkdir(parents=True, exist_ok=True)
            status.write_text(_run(["dpkg-deb", "--field", str(file)], folder))
    _leave_out(root)
    _write_configuration(root)
    return packages


@contextmanager
def apt(architecture: str) -> Iterator[tuple[list[str], Path]]:
    """An apt-get for an architecture with lists of its own, and an empty folder to download to.

    Raises:
        DebianError: apt-get and dpkg-deb are missing, or the lists cannot be had.
    """
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise DebianError(
            f"apt-get or dpkg-deb is missing: use a machine with {RELEASE}, or name a base image with BASE="
        )
    with tempfile.TemporaryDirectory() as work:
        for name in ("state/lists/partial", "cache/archives/partial", "packages"):
            (Path(work) / name).mkdir(parents=True)
        options = {
            "Dir::State": f"{work}/state", "Dir::State::status": "/dev/null", "Dir::Cache": f"{work}/cache",
            "APT::Architecture": architecture, "APT::Architectures": architecture, "APT::Sandbox::User": "",
        }  # fmt: skip
        command = ["apt-get", "--quiet=2", *(f"--option={name}={value}" for name, value in options.items())]
        folder = Path(work) / "packages"
        _run([*command, "update"], folder)
        yield command, folder


def _leave_out(root: Path) -> None:
    for path in sorted(root.rglob("*"), reverse=True):
        name = str(path.relative_to(root))
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()) and name not in {"usr/bin", "usr/sbin", "usr/lib64"}:
                path.rmdir()
        elif name.startswith("usr/bin/"):
            if name not in _PROGRAMS:
                path.unlink()
        elif name.startswith("usr/share/doc/"):
            if path.name != "copyright":
                path.unlink()
        elif any(fnmatch.fnmatch(name, pattern) for pattern in _LEFT_OUT) and "dpkg/status.d" not in name:
            path.unlink()


def _write_configuration(root: Path) -> None:
    """Write what the installation scripts of the packages would write."""
    authorities = sorted((root / "usr" / "share" / "ca-certificates").rglob("*.crt"))
    texts = {
        "etc/ssl/certs/ca-certificates.crt": "".join(path.read_text() for path in authorities),
        "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
        "etc/passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\nberthmaster:x:65532:65532::/tmp:/usr/sbin/nologin\n",
        "etc/group": "root:x:0:\nberthmaster:x:65532:\n",
    }
    shutil.rmtree(root / "usr" / "share" / "ca-certificates")
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "tmp").mkdir(exist_ok=True)


def _run(command: Sequence[str], folder: Path, output: int | None = None) -> str:
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, stdout=subprocess.PIPE if output is None else output, stderr=subprocess.PIPE,
        timeout=_TIMEOUT_S, check=False, env=environment,
    )  # fmt: skip
    if done.returncode:
        raise DebianError(
            f"`{' '.join(command[:2])} ...` failed: {done.stderr.decode(errors='replace').strip()[-1500:]}"
        )
    return (done.stdout or b"").decode()
