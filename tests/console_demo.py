"""``make console``: an extender on the examples and a generated fleet, and the console before it, on loopback.

Ctrl-C ends both. The fleet is files in a temporary folder. A change of a file appears on the pages without a reload.
"""

import argparse
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from console_fleet import fleet, hostile, write

ROOT = Path(__file__).parents[1]
_START_S = 900.0
_RECORDED = 6000
_STOP_S = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--workloads", type=int, default=3000)
    parser.add_argument(
        "--port", type=int, default=9444, help="the port of the console; the next five are used as well"
    )
    parser.add_argument("--hostile", action="store_true", help="add objects with markup in every text")
    given = parser.parse_args()
    taken = [port for port in range(given.port, given.port + 4) if not _is_free(port)]
    if taken:
        print(f"port {taken[0]} is in use by another process; end it, or choose others with --port", file=sys.stderr)  # noqa: T201
        return 1
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="berthmaster-console-")))
        now = datetime.now(UTC)
        items = [*fleet(given.clusters, given.workloads, now=now), *(hostile(now) if given.hostile else [])]
        file = folder / "fleet"
        write(items, file)
        ledger = f"sqlite:///{folder / 'ledger.db'}"
        _record_decisions(items, folder, ledger)
        extender, probe = given.port + 1, given.port + 2
        examples = ROOT / "examples"
        files = [file, examples / "clusters.yaml", examples / "groups", examples / "regions", examples / "nowhere"]
        named = [argument for each in files for argument in ("-f", str(each))]
        service = _start(
            stack,
            [
                "extender",
                *named,
                f"--ledger={ledger}",
                *_ports(extender, probe),
                "--request-timeout-s=60",
                "--max-body-bytes=536870912",
            ],
        )
        if not _ready(service, probe):
            return 1
        url = f"--extender-url=http://127.0.0.1:{extender}"
        pages = _start(
            stack, ["console", url, "--title=example fleet", *_ports(given.port, given.port + 3), "--workers=1"]
        )
        if not _ready(pages, given.port + 3) or service.poll() is not None:
            return 1
        print(f"\nThe console is at http://127.0.0.1:{given.port}/ (Ctrl-C ends it). The fleet is {file}.", flush=True)  # noqa: T201
        with suppress(KeyboardInterrupt):
            signal.pause()
    return 0


def _record_decisions(items: Sequence[dict[str, Any]], folder: Path, ledger: str) -> None:
    """Record what the binding scheduler decides on the first workloads, and if one cluster is lost, in a ledger."""
    of_workloads = ("Deployment", "ResourceBinding")
    some = [each for each in items if each["kind"] not in of_workloads]
    some += islice((each for each in items if each["kind"] in of_workloads), _RECORDED)
    write(some, folder / "recorded")
    lost = next((each["metadata"]["name"] for each in items if each["kind"] == "Cluster"), "")
    command = [str(Path(sys.executable).with_name("berthmaster")), "simulate", "-f", str(folder / "recorded")]
    options = [f"--ledger={ledger}", *(["--down", lost] if lost else []), "-o", "name"]
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - ours


def _ports(port: int, probe: int) -> list[str]:
    return [f"--bind=127.0.0.1:{port}", f"--probe-bind=127.0.0.1:{probe}", "--drain-s=0", "--log-level=warning"]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _start(stack: ExitStack, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [str(Path(sys.executable).with_name("berthmaster")), *arguments]
    process = subprocess.Popen(command, start_new_session=True)  # noqa: S603 - our own command
    stack.callback(_stop, process)
    return process


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _ready(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until a service answers. The answer of another process counts for nothing: ours ends if a port is taken."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2):
            return process.poll() is None
        time.sleep(0.2)
    print("a service did not become ready; its log is above", file=sys.stderr)  # noqa: T201
    return False


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    sys.exit(main())
