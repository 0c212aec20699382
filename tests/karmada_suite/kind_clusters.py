"""The clusters that specs create with kind: spare members that are started before, behind a command named ``docker``.

kind calls ``docker`` to run a node, to read its kubeconfig, and to remove it. This command gives it a spare member.
"""

import fcntl
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

VERSION: Final = "v1.36.3"
WAIT_S: Final = 240.0
"""How long a node waits for a spare member that is free."""
FOLLOW_S: Final = 30
"""How long a log is followed. kind ends the command when it has read its line."""
_ANSWERS: Final = (
    (".SecurityOptions", "[]"),
    (".DriverStatus", '[["Backing Filesystem", "extfs"]]'),
    ("{{.Driver}}", "overlay2"),
    ("{{json .}}", '{"CgroupVersion": "2", "MemoryLimit": true, "PidsLimit": true, "CPUShares": true}'),
    ("io.x-k8s.kind.role", "control-plane"),
    ("network ls", "kind"),
    ("Subnet", "127.0.0.0/8"),
    ("/kind/version", VERSION),
    ("logs -f", "Reached target Multi-User System"),
)
"""What is printed if the arguments contain a text; the first one counts."""


def command(folder: Path, spares: dict[str, str]) -> Path:
    """Write the command, and return the folder that belongs on the PATH.

    Args:
        folder: a new folder.
        spares: the kubeconfig of each spare member by the address on whose port 6443 it answers.
    """
    programs = folder / "bin"
    programs.mkdir(parents=True)
    (folder / "spares.json").write_text(json.dumps(spares))
    (folder / "taken.json").write_text("{}")
    script = programs / "docker"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "{folder}" "$@"\n')
    script.chmod(0o755)
    return programs


@contextmanager
def _taken(folder: Path) -> Iterator[dict[str, str]]:
    """Yield which node has which address, and keep what is changed."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        taken: dict[str, str] = json.loads((folder / "taken.json").read_text())
        yield taken
        (folder / "taken.json").write_text(json.dumps(taken))


def _take(folder: Path, node: str) -> int:
    spares = json.loads((folder / "spares.json").read_text())
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        with _taken(folder) as taken:
            free = sorted(set(spares) - set(taken.values()))
            if free:
                taken[node] = free[0]
                return 0
        time.sleep(1)
    sys.stderr.write("no spare member is free\n")
    return 1


def main(folder: Path, arguments: Sequence[str]) -> int:
    if arguments[0] == "run":
        return _take(folder, arguments[arguments.index("--name") + 1])
    with _taken(folder) as taken:
        if arguments[0] == "rm":
            for node in arguments:
                taken.pop(node, None)
            return 0
        text = _answer(folder, taken, arguments)
    if "-i" in arguments:
        sys.stdin.read()
    if text:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    if arguments[:2] == ["logs", "-f"]:
        time.sleep(FOLLOW_S)
    return 0


def _answer(folder: Path, taken: dict[str, str], arguments: Sequence[str]) -> str:
    joined = " ".join(arguments)
    if arguments[0] == "-v":  # the name of a cluster may contain it
        return "Docker version 0"
    if arguments[0] == "ps":
        cluster = joined.partition("io.x-k8s.kind.cluster=")[2].partition(" ")[0]
        return "\n".join(node for node in taken if node == f"{cluster}-control-plane")
    address = next((taken[each] for each in arguments if each in taken), "")
    if "/etc/kubernetes/admin.conf" in joined and "cat" in arguments:
        return str(json.loads((folder / "spares.json").read_text())[address])
    if "GlobalIPv6Address" in joined:
        return f"{address},"
    if "IPAddress" in joined:
        return address
    if "desktop.docker.io" in joined:
        return f"{address}:6443"
    return next((answer for text, answer in _ANSWERS if text in joined), "")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
