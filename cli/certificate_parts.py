"""What the commands about certificates work with, put together from their options."""

import socket
from pathlib import Path
from typing import Any, NamedTuple

from certs.events import DirectRecorder
from certs.journal import Journal
from certs.metrics import Metrics
from certs.options import Options
from certs.upkeep import Upkeep
from certs.world import Clusters
from cli.certificate_options import options_of
from fleet.kube.connection import OfficialConnection, connect
from fleet.ops import logs
from fleet.ops.clock import SystemClock


class Parts(NamedTuple):
    """Everything that is needed.

    Attributes:
        clusters: the connections.
        options: what is kept.
        metrics: what is counted.
        upkeep: keeps it.
    """

    clusters: Clusters
    options: Options
    metrics: Metrics
    upkeep: Upkeep


def parts(given: dict[str, Any]) -> Parts:
    """The parts for what options name; logs go to standard error from here on.

    Raises:
        InputError: there is no access to a cluster, or options do not go together.
    """
    options = options_of(given)
    logs.configure(given["log_level"])
    host = connect(given["kubeconfig"], given["context"])
    target = _target(host, given["kubeconfig"], given["target_kubeconfig"], given["target_context"])
    clusters = Clusters(host, target)
    clock, metrics = SystemClock(), Metrics()
    instance = socket.gethostname()
    journal = Journal(DirectRecorder(host, clock, instance), DirectRecorder(target, clock, instance), metrics)
    return Parts(clusters, options, metrics, Upkeep(clusters, options, clock, journal))


def _target(
    host: OfficialConnection, host_file: Path | None, file: Path | None, context: str | None
) -> OfficialConnection:
    return host if file is None and context is None else connect(file or host_file, context)
