"""A real provider of OpenID Connect: the package oidc-provider of npm, as a process on loopback."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from e2e.assets import MissingAssetError
from e2e.control_plane import HOST, fetch
from e2e.processes import Process, Processes

_SOURCE: Final = Path(__file__).parent / "provider"
_PINS: Final = ("package.json", "package-lock.json", ".npmrc")
_INSTALL_LIMIT_S: Final = 300
_START_LIMIT_S: Final = 30.0


def provider_modules() -> Path:
    """Return a folder with the pinned packages. npm fetches them once for each change of the pins."""
    npm, digest = shutil.which("npm"), hashlib.sha256()
    if npm is None or shutil.which("node") is None:
        raise MissingAssetError("Node.js and npm are not on the PATH: install them (Debian: apt-get install npm)")
    for name in _PINS:
        digest.update((_SOURCE / name).read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "berthmaster" / "oidc-provider"
    folder = base / digest.hexdigest()[:16]
    if folder.is_dir():
        return folder
    base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=base) as parent:
        new = Path(parent) / "packages"
        new.mkdir()
        for name in _PINS:
            shutil.copy(_SOURCE / name, new / name)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(
            command, cwd=new, capture_output=True, text=True, timeout=_INSTALL_LIMIT_S, check=False
        )  # fmt: skip
        if done.returncode:
            raise MissingAssetError(f"npm ci failed; is the registry reachable?\n{done.stderr.strip()}")
        with suppress(OSError):  # another run was faster
            new.rename(folder)
    return folder


class OidcProvider:
    """A provider with one client.

    Attributes:
        url: the issuer.
        secret_file: the secret of the client.
    """

    def __init__(self, processes: Processes, modules: Path, console_url: str) -> None:
        port, secret = processes.ports.free(), "a-secret-of-the-console-for-this-test"
        self.url = f"http://{HOST}:{port}"
        self.secret_file = processes.folder / "oidc-client-secret"
        self.secret_file.write_text(f"{secret}\n")
        # Node.js looks for packages beside the script.
        shutil.copy(_SOURCE / "server.mjs", modules / "server.mjs")
        self._process: Process = processes.start(
            "oidc-provider", ["node", str(modules / "server.mjs"), str(port), console_url, secret]
        )
        metadata = f"{self.url}/.well-known/openid-configuration"
        self._process.wait_for("to answer", lambda: fetch(metadata), _START_LIMIT_S)

    def stop(self) -> None:
        self._process.kill()
