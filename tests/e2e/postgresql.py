"""A PostgreSQL server of the system's packages, on a socket in a folder of the test run."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LIMIT_S: Final = 60
_UNPRIVILEGED: Final = 65534  # initdb refuses to run as root
_ROOTS: Final = (Path("/usr/lib/postgresql"), Path("/usr/pgsql-15"), Path("/opt/homebrew/opt"))
MISSING: Final = "PostgreSQL is not installed: apt-get install postgresql (only its binaries are used)"


def binaries() -> Path | None:
    """Return the folder with initdb and pg_ctl; None if PostgreSQL is not installed."""
    found = [path.parent for root in _ROOTS for path in sorted(root.glob("**/bin/initdb"))]
    on_path = shutil.which("initdb")
    return found[-1] if found else Path(on_path).parent if on_path else None


@contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """Start a server, and yield the URL of its database for SQLAlchemy. ``folder`` must be new; it is removed."""
    tools = binaries()
    if tools is None:
        raise FileNotFoundError(MISSING)
    user = _UNPRIVILEGED if os.getuid() == 0 else os.getuid()
    folder.mkdir(mode=0o700)
    os.chown(folder, user, -1)
    data = folder / "data"

    def run(*command: str) -> None:
        demoted = {"user": user} if os.getuid() == 0 else {}
        subprocess.run(
            [str(tools / command[0]), *command[1:]],
            check=True, timeout=_LIMIT_S, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, **demoted,
        )  # fmt: skip

    run("initdb", "-D", str(data), "-U", "ledger", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
    run("pg_ctl", "-D", str(data), "-w", "-o", options, "-l", str(folder / "log"), "start")
    try:
        yield f"postgresql+psycopg://ledger@/postgres?host={folder}"
    finally:
        run("pg_ctl", "-D", str(data), "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
