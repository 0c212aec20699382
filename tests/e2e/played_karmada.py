"""The model of Karmada on a real API server, with members that the model plays, too."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from e2e import karmada
from e2e.control_plane import ControlPlane
from e2e.manifests import JSON
from karmada_model.members import Delays
from karmada_model.model import KarmadaModel, Settings
from karmada_model.objects import ServedObjects

from berthmaster.kube.http_client import load_client
from berthmaster.model.errors import ApiError
from berthmaster.runtime.clock import SystemClock

LIMIT_S: Final = 120.0
TURN_S: Final = 0.3


class PlayedKarmada:
    """Karmada's controllers and some members.

    Attributes:
        api: an administrator's client.
    """

    def __init__(self, plane: ControlPlane, members: Sequence[JSON], delays: Delays) -> None:
        """Join the members, and begin to play."""
        self.api = plane.api
        karmada.install_clusters(self.api)
        karmada.install_overrides(self.api)
        for each in members:
            space = f"karmada-es-{each['metadata']['name']}"
            self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
            karmada.join(self.api, each)
        objects = ServedObjects(load_client(plane.kubeconfig, None))
        self._model = KarmadaModel(objects, SystemClock(), Settings(delays=delays, status_delay_s=0.1))
        self._turn = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._end.set()
        self._thread.join(LIMIT_S)

    def change(self, change: Callable[[Any], object]) -> None:
        """Change the members, between two turns."""
        with self._turn:
            change(self._model.members)

    def _loop(self) -> None:
        while not self._end.wait(TURN_S):
            with suppress(ApiError), self._turn:  # as a controller, it tries again
                self._model.settle()
