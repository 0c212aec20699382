"""What the commands about certificates work with, put together from their options."""

import socket
from contextlib import AbstractContextManager
from typing import Any, Final

from certs.journal import Journal
from certs.metrics import Metrics
from certs.options import Options
from certs.upkeep import Upkeep
from certs.world import Clusters
from fleet.kube.connection import connect
from fleet.kube.event_recorder import EventRecorder
from fleet.ops.clock import SystemClock

_REPORTER: Final = "berthmaster.io/certs"


class Parts(AbstractContextManager["Parts"]):
    """Everything that is needed. Leaving it writes the events that are still waiting.

    Attributes:
        clusters: the connections.
        options: what is kept.
        metrics: what is counted.
        upkeep: keeps it.
    """

    def __init__(self, clusters: Clusters, options: Options) -> None:
        clock = SystemClock()
        instance = socket.gethostname()
        self._recorders = [EventRecorder(each, clock, _REPORTER, instance) for each in clusters]
        self.clusters = clusters
        self.options = options
        self.metrics = Metrics()
        self.upkeep = Upkeep(clusters, options, clock, Journal(*self._recorders, self.metrics))

    def __enter__(self) -> "Parts":
        for each in self._recorders:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._recorders:
            each.stop()


def parts(given: dict[str, Any], options: Options) -> Parts:
    """The parts for the clusters that options name.

    Raises:
        InputError: there is no access to one of them.
    """
    host = connect(given["kubeconfig"], given["context"])
    separate = given["target_kubeconfig"] is not None or given["target_context"] is not None
    target = connect(given["target_kubeconfig"] or given["kubeconfig"], given["target_context"]) if separate else host
    return Parts(Clusters(host, target), options)
