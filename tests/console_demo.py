"""``make console``: an extender on the examples and a generated fleet, and the console before it, on loopback.

Ctrl-C ends both. The fleet is files in a temporary folder. A change of a file appears on the pages without a reload.
"""

import argparse
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from console_fleet import fleet, write
from e2e.control_plane import HOST, fetch
from e2e.processes import NotInTimeError, Processes, sigterm_as_ctrl_c
from e2e.serving import COMMAND

EXAMPLES = Path(__file__).parents[1] / "examples" / "karmada"
_START_S = 900.0
_RECORDED = 6000


def main() -> str:
    """Return why the demonstration could not start; empty after Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--workloads", type=int, default=3000)
    parser.add_argument(
        "--port", type=int, default=9444, help="the port of the console; the next three are used as well"
    )
    given = parser.parse_args()
    ports = range(given.port, given.port + 4)
    if taken := [port for port in ports if not _is_free(port)]:
        return f"port {taken[0]} is in use by another process; end it, or choose others with --port"
    with tempfile.TemporaryDirectory(prefix="berthmaster-console-") as name:
        folder = Path(name)
        processes = Processes(folder)
        with suppress(KeyboardInterrupt), sigterm_as_ctrl_c():
            try:
                _show(processes, given.clusters, given.workloads, ports)
            except NotInTimeError as error:
                return str(error)
            finally:
                processes.stop_all()
    return ""


def _show(processes: Processes, clusters: int, workloads: int, ports: Sequence[int]) -> None:
    """Start both services, and wait for Ctrl-C."""
    pages, extender, *probes = ports
    _say(f"Generating a fleet of {clusters:,} clusters and {workloads:,} workloads ...")
    items = fleet(clusters, workloads, now=datetime.now(UTC))
    file = processes.folder / "fleet"
    write(items, file)
    ledger = f"--ledger=sqlite:///{processes.folder / 'ledger.db'}"
    _say("Deciding on some of them, and recording the decisions in a ledger ...")
    _record_decisions(items, processes.folder, ledger)
    files = [file, EXAMPLES / "clusters.yaml", *(EXAMPLES / each for each in ("groups", "regions", "nowhere"))]
    named = [argument for each in files for argument in ("-f", each)]
    limits = ("--request-timeout-s=60", "--max-body-bytes=536870912")
    shown = (f"--extender-url=http://{HOST}:{extender}", "--title=example fleet", "--workers=1")
    for command, port, probe in (
        (("extender", *named, ledger, *limits), extender, probes[0]),
        (("console", *shown), pages, probes[1]),
    ):
        addresses = (f"--bind={HOST}:{port}", f"--probe-bind={HOST}:{probe}", "--drain-s=0", "--log-level=warning")
        _say(f"Starting the {command[0]} ...")
        process = processes.start(str(command[0]), [COMMAND, *command, *addresses])
        process.wait_for("to be ready", lambda probe=probe: fetch(f"http://{HOST}:{probe}/readyz"), _START_S)
    _say(f"\nThe console is at http://{HOST}:{pages}/ (Ctrl-C ends it). The fleet is {file}.")
    signal.pause()


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - for the person who ran make


def _record_decisions(items: Sequence[dict[str, Any]], folder: Path, ledger: str) -> None:
    """Record what the binding scheduler decides on the first workloads, and if one cluster is lost, in a ledger."""
    of_workloads = ("Deployment", "ResourceBinding")
    some = [each for each in items if each["kind"] not in of_workloads]
    some += islice((each for each in items if each["kind"] in of_workloads), _RECORDED)
    write(some, folder / "recorded")
    lost = next(each["metadata"]["name"] for each in items if each["kind"] == "Cluster")
    command = [COMMAND, "simulate", "-f", str(folder / "recorded"), ledger, "--down", lost, "-o", "name"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - ours


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            probe.bind((HOST, port))
            return True
        return False


if __name__ == "__main__":
    sys.exit(main() or 0)
