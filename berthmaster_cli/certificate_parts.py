"""What the commands about certificates work with, put together from their options."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from berthmaster.kube.connection import connect
from berthmaster.kube.event_recorder import EventRecorder
from berthmaster.runtime import logs
from berthmaster.runtime.clock import SystemClock
from berthmaster_cli.certificate_options import options_of
from certs.journal import Journal
from certs.metrics import Metrics
from certs.options import Options
from certs.upkeep import Upkeep
from certs.world import Clusters

_REPORTER: Final = "berthmaster.io/certs"


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


@contextmanager
def parts(given: dict[str, Any]) -> Iterator[Parts]:
    """The parts for what options name; logs go to standard error from here on. Events are written until the end.

    Raises:
        InputError: there is no access to a cluster, or options do not go together.
    """
    options = options_of(given)
    logs.configure(given["log_level"])
    clusters = _clusters(given)
    clock, metrics = SystemClock(), Metrics()
    recorders = {each: EventRecorder(each, clock, _REPORTER, socket.gethostname()) for each in clusters}
    journal = Journal(recorders[clusters.host], recorders[clusters.target], metrics)
    for recorder in recorders.values():
        recorder.start()
    try:
        yield Parts(clusters, options, metrics, Upkeep(clusters, options, clock, journal))
    finally:
        for recorder in recorders.values():
            recorder.stop()


def _clusters(given: dict[str, Any]) -> Clusters:
    """Host and target: the same one where no other is named."""
    host = connect(given["kubeconfig"], given["context"])
    if given["target_kubeconfig"] is None and given["target_context"] is None:
        return Clusters(host, host)
    return Clusters(host, connect(given["target_kubeconfig"] or given["kubeconfig"], given["target_context"]))
