"""``berthmaster demo``: run both services on loopback with temporary certificates, and send requests."""

import base64
import json
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self

import click
import yaml

from berthmaster.model.decode import read_json
from berthmaster.model.errors import BerthmasterError
from berthmaster.native_api.connection import UnansweredError, WebClient
from berthmaster.runtime.stopping import Stop
from berthmaster_cli.output import print_line, styled
from certs.authority import issue, new_authority

HOST: Final = "127.0.0.1"
_START_S: Final = 30.0
_STOP_S: Final = 15.0
_REQUEST_S: Final = 10.0
_LIFETIME: Final = timedelta(days=1)
_TAIL_LINES: Final = 5
_CA: Final = "ca.crt"
_OBJECTS: Final[dict[str, Any]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))


class DemoError(BerthmasterError):
    """A service did not start or did not respond."""


def _write_certificates(folder: Path) -> None:
    """Write a CA certificate and a serving certificate for loopback, valid for one day."""
    now = datetime.now(UTC)
    authority = new_authority("berthmaster demo", _LIFETIME, now)
    leaf = issue(authority, "localhost", ["localhost", HOST], _LIFETIME, now)
    files = {_CA: authority.certificate_pem, "tls.crt": leaf.certificate_pem, "tls.key": leaf.key_pem}
    for name, content in files.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_bytes(content)


class DemoService:
    """A service on loopback with free ports, and with the certificates in a folder. ``running`` starts it."""

    def __init__(self, name: str, arguments: Sequence[str], folder: Path) -> None:
        self.name = name
        self.port, self.probe_port = _free_port(), _free_port()
        self._log = folder / f"{name}.log"
        self._trust = ssl.create_default_context(cafile=str(folder / _CA))
        self._command = [
            *(sys.executable, "-m", "berthmaster_cli.main", name, *arguments),
            *("--bind", f"{HOST}:{self.port}", "--probe-bind", f"{HOST}:{self.probe_port}"),
            *("--cert-file", str(folder / "tls.crt"), "--key-file", str(folder / "tls.key")),
            *("--workers", "1", "--drain-s", "0"),
        ]

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Start the service, wait until it is ready, and stop it at the end."""
        with self._log.open("wb") as log:
            process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603 - our own command
        try:
            self._wait_until_ready(process)
            yield self
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - any JSON value
        """Send a request and return the decoded JSON response."""
        sent = {"Content-Type": "application/json", **(headers or {})}
        try:
            with WebClient(self.url, _REQUEST_S, self._trust) as client:
                encoded = None if body is None else json.dumps(body).encode()
                return read_json(client.ask(method, path, encoded, sent).content)
        except (UnansweredError, ValueError) as error:
            raise DemoError(f"{self.name} did not respond to {method} {path}: {error}{self._tail()}") from None

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + _START_S
        while time.monotonic() < until:
            if process.poll() is not None:
                raise DemoError(f"{self.name} exited with {process.returncode}{self._tail()}")
            if self._ready():
                return
            time.sleep(0.05)
        raise DemoError(f"{self.name} was not ready within {_START_S:.0f} s{self._tail()}")

    def _ready(self) -> bool:
        try:
            with WebClient(f"http://{HOST}:{self.probe_port}", 1.0) as client:
                return client.ask("GET", "/readyz").status == HTTPStatus.OK
        except UnansweredError:
            return False

    def _tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-_TAIL_LINES:] if self._log.exists() else []
        return f"; its log ends with: {' | '.join(lines)}" if lines else ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


@click.command()
@click.option("--keep", is_flag=True, help="Keep the services running until Ctrl-C.")
def command(*, keep: bool) -> None:
    """Start both services on loopback, send requests and show the responses.

    The certificates are temporary.
    """
    # Raise KeyboardInterrupt on both signals, so that the services are stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="berthmaster-demo-") as name, ExitStack() as running:
        folder = Path(name)
        _write_certificates(folder)
        gates = ["--feature-gates=PolicyPreemption=true"]  # otherwise a priority drop is recorded without a warning
        webhook = running.enter_context(DemoService("webhook", gates, folder).running())
        print_line(f"The admission webhook listens at {webhook.url}")
        _show_webhook(webhook)
        (folder / "fleet.yaml").write_text(yaml.safe_dump_all(_OBJECTS["clusters"]))
        manifests = ["-f", str(folder / "fleet.yaml")]
        extender = running.enter_context(DemoService("extender", manifests, folder).running())
        print_line()
        print_line(f"The extender listens at {extender.url}")
        _show_extender(extender)
        if keep:
            print_line()
            print_line(f"The services run until Ctrl-C. Their CA certificate is {folder / _CA}.")
            for each in (webhook, extender):
                print_line(f"  {each.name}: {each.url}, probes and metrics at http://127.0.0.1:{each.probe_port}")
            with suppress(KeyboardInterrupt):
                Stop().wait()


def _title(text: str) -> None:
    print_line()
    print_line(styled(text, "bold"))


def _show_webhook(service: DemoService) -> None:
    _title("The webhook adds defaults to a policy:")
    _show_patch(service.ask("POST", "/mutate-propagationpolicy", _review("CREATE", _OBJECTS["policy"])))

    wrong = _changed(**_OBJECTS["wrong"])
    _title("The webhook denies an invalid policy and reports every error:")
    response = service.ask("POST", "/validate-propagationpolicy", _review("CREATE", wrong))["response"]
    print_line(f"  allowed: {json.dumps(response['allowed'])}")
    for line in response["status"]["message"].splitlines():
        print_line(f"  {line}")

    _title("The webhook warns about a priority drop from 10 to 3 and records it for preemption:")
    old, new = _changed(priority=10, preemption="Never"), _changed(priority=3, preemption="Never")
    answer = service.ask("POST", "/mutate-propagationpolicy", _review("UPDATE", new, old))
    for warning in answer["response"].get("warnings", []):
        print_line(f"  warning: {warning}")
    _show_patch(answer)


def _changed(**spec: object) -> dict[str, Any]:
    policy = _OBJECTS["policy"]
    return {**policy, "spec": {**policy["spec"], **spec}}


def _review(operation: str, obj: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a review as an API server would send it."""
    request = {**_OBJECTS["review"], "operation": operation, "object": obj, "oldObject": old}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def _show_patch(answer: dict[str, Any]) -> None:
    patch = read_json(base64.b64decode(answer["response"].get("patch") or "W10="))
    for operation in patch:
        value = json.dumps(operation["value"]) if "value" in operation else ""
        print_line(f"  {operation['op']} {operation['path']} {value}")


def _show_extender(service: DemoService) -> None:
    """Show the same question in the APIs of three control planes."""
    groups = _OBJECTS["groups"]
    _title("Its own API: 12 replicas do not fit on premises, so they are placed in the cloud:")
    answer = service.ask("POST", "/v1/schedule?explain=true", {"binding": _OBJECTS["binding"]})
    print_line(f"  group {answer['group']}, clusters {json.dumps(answer['clusters'])}")
    for group in answer["diagnosis"]["groups"]:
        failure = group["failure"]
        print_line(f"  {group['group']}: {failure['message'] if failure else 'chosen'}")

    plugin = _OBJECTS["plugin"]
    _title(plugin["title"])
    for verb, path in plugin["paths"].items():
        print_line(f"  {verb}: {json.dumps(service.ask('POST', path, plugin['request']))}")

    _title("kube-scheduler's extender protocol filters nodes that represent clusters:")
    annotations = {"policy.berthmaster.io/placement": json.dumps({"clusterAffinities": groups})}
    pod = {**_OBJECTS["pod"], "metadata": {**_OBJECTS["pod"]["metadata"], "annotations": annotations}}
    request = {"Pod": pod, "Nodes": {"items": _OBJECTS["nodes"]}, "NodeNames": None}
    response = service.ask("POST", "/kube-scheduler/filter", request)
    kept = [node["metadata"]["name"] for node in (response.get("Nodes") or {}).get("items") or []]
    print_line(f"  kept: {', '.join(kept)}")
    for kind in ("FailedNodes", "FailedAndUnresolvableNodes"):
        for node, reason in (response.get(kind) or {}).items():
            print_line(f"  {node}: {reason}")
