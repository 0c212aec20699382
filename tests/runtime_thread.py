"""A controllers process in a thread."""

import threading
from collections.abc import Sequence
from typing import Final

from kube_over_http import KubeOverHTTP

from berthmaster.controllers.registry import Registration
from berthmaster.controllers.run import RunOptions, Runtime
from berthmaster.kube.lease import LeaseOptions
from berthmaster.runtime.clock import SystemClock

_STOP_LIMIT_S: Final = 30.0


class RuntimeThread:
    """A runtime with leader election at an API server over HTTP.

    Attributes:
        runtime: the runtime.
    """

    def __init__(self, kube: KubeOverHTTP, registrations: Sequence[Registration], probe_port: int) -> None:
        lease = LeaseOptions("karmada-system", "berthmaster", "me", lease_s=30, renew_s=25.0, retry_s=0.1)
        options = RunOptions(lease=lease, probe_port=probe_port)
        self.runtime = Runtime(options, registrations, kube.client(), SystemClock(), lambda _code: None)
        self._thread = threading.Thread(target=self.runtime.run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.runtime.stop("the test")
        self._thread.join(_STOP_LIMIT_S)
        assert not self._thread.is_alive()
