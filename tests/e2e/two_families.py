"""Run an extender in the network namespace of this process, and print which of its addresses answer.

``two_families.py HOST [--without-ipv6]``. The namespace must be new and belong to this process alone.
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ADDRESSES: Final = ("192.0.2.7", "2001:db8::7")
PORTS: Final = {"https": 9443, "probes": 9080}
START_LIMIT_S: Final = 60.0
ANSWER_LIMIT_S: Final = 5.0
FLEET: Final = "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: eu}\n"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def answers(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=ANSWER_LIMIT_S) as session:
            session.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return session.recv(9) == b"HTTP/1.1 "
    except OSError:
        return False


def main(host: str, *, with_ipv6: bool) -> None:
    ip("link", "set", "lo", "up")
    if not with_ipv6:
        for interface in ("all", "default", "lo"):
            Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6").write_text("1")
    addresses = ADDRESSES if with_ipv6 else ADDRESSES[:1]
    for each in addresses:
        ip("address", "add", f"{each}/{128 if ':' in each else 32}", "dev", "lo", *(("nodad",) if ":" in each else ()))
    with tempfile.TemporaryDirectory() as folder:
        fleet = Path(folder, "clusters.yaml")
        fleet.write_text(FLEET)
        arguments = [
            sys.executable, "-m", "berthmaster_cli.main", "extender", f"--filename={fleet}", "--insecure",
            f"--bind={host}:{PORTS['https']}", f"--probe-bind={host}:{PORTS['probes']}", "--drain-s=0",
        ]  # fmt: skip
        with subprocess.Popen(arguments, cwd=folder) as process:
            deadline_s = time.monotonic() + START_LIMIT_S
            while process.poll() is None and time.monotonic() < deadline_s:
                if all(any(answers(each, port) for each in addresses) for port in PORTS.values()):
                    break
                time.sleep(0.2)
            found = {name: {each: answers(each, port) for each in addresses} for name, port in PORTS.items()}
            process.terminate()
    print(json.dumps(found))  # noqa: T201 - the answer


if __name__ == "__main__":
    main(sys.argv[1], with_ipv6="--without-ipv6" not in sys.argv)
