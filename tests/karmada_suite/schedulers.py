"""The two schedulers that play the suite: karmada-scheduler, and Berthmaster in its place."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from access_rules import role_rule
from e2e.registration import KINDS, configuration
from e2e.service import KARMADA_HOOKS, REBALANCER_HOOK, Service
from e2e.serving import Serving, start_controllers
from fleet.real_karmada import SCHEDULER, SYSTEM
from karmada_suite.plane import GATES, SuitePlane
from karmada_suite.refusing_proxy import RefusingProxy

from berthmaster.controllers.rbac import rules_of

CONTROLLERS: Final = ("binding-scheduler", "preemption", "workload-rebalancer")
REPLACED: Final = ("--feature-gates=PropagationPolicyPreemption=false", "--controllers=-workloadRebalancer")
"""Options of Karmada's controller manager that turn off what Berthmaster does in its place."""
BRIEF_LEASE: Final = ("--leader-elect-lease-s=8", "--leader-elect-renew-s=6")
"""Options by which a standby takes over soon. On a busy machine a leader with them may lose its Lease."""
_TURN_S: Final = 1.0
_POLICIES: Final = ("propagationpolicy.karmada.io", "clusterpropagationpolicy.karmada.io")


@contextmanager
def karmada_scheduler(plane: SuitePlane) -> Iterator[None]:
    flags = ("--leader-elect=false", "--enable-scheduler-estimator=true", GATES)
    process = plane.karmada.start(SCHEDULER, *flags)
    try:
        yield
    finally:
        process.stop()


@contextmanager
def berthmaster(plane: SuitePlane, mode: str, *, kill_leader_s: float, refuse_every: int) -> Iterator[None]:
    """Let Berthmaster schedule, preempt, rebalance and judge policies.

    Args:
        plane: Karmada, which runs with ``REPLACED``.
        mode: the mode of the webhook. In mode standalone Karmada's webhooks of policies are removed.
        kill_leader_s: how often the leader of two replicas is killed; 0 for one replica that is not killed.
        refuse_every: the API server refuses each so many requests of the controllers; 0 for none.
    """
    with ExitStack() as opened:
        _start_webhook(plane, mode, opened)
        kubeconfig = _user(plane)
        if refuse_every:
            kubeconfig = opened.enter_context(RefusingProxy(kubeconfig, plane.processes.ports.free(), refuse_every))
        opened.enter_context(Replicas(plane, kubeconfig, kill_leader_s).kept())
        yield


def _user(plane: SuitePlane) -> Path:
    rules = rules_of(CONTROLLERS, estimators=True)
    places = ((role_rule(each, "berthmaster-controllers"), SYSTEM if each.scope == "lease" else None) for each in rules)
    return plane.host.user("berthmaster", [*places])


def _start_webhook(plane: SuitePlane, mode: str, opened: ExitStack) -> None:
    folder = plane.processes.folder / "webhook"
    folder.mkdir()
    service = Service(plane.processes, folder, mode)
    opened.callback(service.close)
    service.start("--feature-gates=PolicyPreemption=true")
    hooks = (*KARMADA_HOOKS, REBALANCER_HOOK)
    for verb, kind in KINDS.items():
        if mode == "standalone":
            _remove_policies(plane, kind)
        entries = [
            each.entry(f"{each.path.strip('/')}.berthmaster.io", service.url, service.authority.certificate)
            for each in hooks
            if each.verb == verb
        ]
        plane.host.api.create(configuration(kind, "berthmaster", entries))


def _remove_policies(plane: SuitePlane, kind: str) -> None:
    for found in plane.host.api.list("admissionregistration.k8s.io/v1", kind):
        kept = [each for each in found["webhooks"] if each["name"] not in _POLICIES]
        whole = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, **found}
        plane.host.api.patch(whole, {"webhooks": kept})


class Replicas:
    """The processes of the controllers."""

    def __init__(self, plane: SuitePlane, kubeconfig: Path, kill_leader_s: float) -> None:
        """Start one, or two if the leader is killed from time to time."""
        self._plane, self._kubeconfig, self._kill_leader_s = plane, kubeconfig, kill_leader_s
        self._running = [self._start() for _ in range(2 if kill_leader_s else 1)]

    def _start(self) -> Serving:
        return start_controllers(
            self._plane.processes, self._plane.host, SYSTEM,
            f"--controllers={','.join(CONTROLLERS)}", "--scheduler-name=default-scheduler",
            "--feature-gates=PolicyPreemption=true,WorkloadAffinity=true", "--enable-scheduler-estimator",
            "--log-level=info", *(BRIEF_LEASE if self._kill_leader_s else ()),
            kubeconfig=self._kubeconfig, wait=False,
        )  # fmt: skip

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Start ended processes again, as kubelet does, and kill the leader from time to time."""
        end = threading.Event()
        thread = threading.Thread(target=self._keep, args=(end,), name="replicas", daemon=True)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()

    def _keep(self, end: threading.Event) -> None:
        killed_s = time.monotonic()
        while not end.wait(_TURN_S):
            self._running = [each if each.process.running else self._start() for each in self._running]
            if self._kill_leader_s and time.monotonic() - killed_s > self._kill_leader_s:
                leaders = [each for each in self._running if each.leading]
                for each in leaders:
                    each.process.kill()
                    killed_s = time.monotonic()
