"""The command."""

import signal
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

import click
from rich.console import Console

from berthmaster.runtime.stopping import Stop
from berthmaster_cli.console import stdout
from berthmaster_cli.demo.extender import show_extender, write_fleet
from berthmaster_cli.demo.service import Certificates, Service
from berthmaster_cli.demo.webhook import show_webhook


@click.command()
@click.option("--keep", is_flag=True, help="Leave the services running until Ctrl-C.")
def command(*, keep: bool) -> None:
    """Start both services on loopback, ask them real questions, and show the answers.

    Certificates are made for the occasion and forgotten afterwards.
    """
    console = stdout()
    # However it is ended, the services end with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="berthmaster-demo-") as name, ExitStack() as running:
        folder = Path(name)
        certificates = Certificates(folder)
        webhook = running.enter_context(Service("webhook", [], certificates, folder))
        console.print(f"the admission webhook serves {webhook.url}")
        show_webhook(console, webhook)
        manifests = ["-f", str(write_fleet(folder))]
        extender = running.enter_context(Service("extender", manifests, certificates, folder))
        console.print(f"\nthe extender serves {extender.url}")
        show_extender(console, extender)
        if keep:
            _keep(console, certificates, [webhook, extender])


def _keep(console: Console, certificates: Certificates, services: list[Service]) -> None:
    console.print(f"\nTrust {certificates.ca_file}; Ctrl-C ends all of it.")
    for service in services:
        console.print(f"  {service.name}: {service.url}, probes and metrics at http://127.0.0.1:{service.probe_port}")
    with suppress(KeyboardInterrupt):
        Stop().wait()
