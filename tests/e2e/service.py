"""``berthmaster webhook`` as a cluster runs it: processes that come and go behind one address."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from e2e.certificates import Authority, Pair
from e2e.control_plane import HOST
from e2e.forwarder import Forwarder
from e2e.processes import Processes
from e2e.registration import Hook
from e2e.serving import COMMAND, Serving, serve

KARMADA_HOOKS: Final = tuple(
    Hook(f"/{verb}-{kind}", "policy.karmada.io", resource)
    for verb in ("mutate", "validate")
    for kind, resource in (
        ("propagationpolicy", "propagationpolicies"),
        ("clusterpropagationpolicy", "clusterpropagationpolicies"),
    )
)
REBALANCER_HOOK: Final = Hook("/validate-workloadrebalancer", "apps.karmada.io", "workloadrebalancers")
KUBEADMIRAL_HOOKS: Final = tuple(
    Hook(hook.path.replace("-", "-kubeadmiral-", 1), "core.kubeadmiral.io", hook.resource) for hook in KARMADA_HOOKS
)
ALL_HOOKS: Final = (*KARMADA_HOOKS, REBALANCER_HOOK, *KUBEADMIRAL_HOOKS)


class Service:
    """The webhook behind one address.

    Attributes:
        url: where the API server reaches it.
        authority: who signs its certificates.
        certificate_file, key_file: what the replicas serve.
        front: the address.
    """

    def __init__(self, processes: Processes, folder: Path, mode: str) -> None:
        self._processes = processes
        self._mode = mode
        self._replicas: list[Serving] = []
        self.authority = Authority("berthmaster-e2e-webhook")
        self.certificate_file, self.key_file = folder / "tls.crt", folder / "tls.key"
        self.write(self.issue())
        self.front = Forwarder(processes.ports.free())
        self.url = f"https://{HOST}:{self.front.port}"

    def issue(self, authority: Authority | None = None) -> Pair:
        return (authority or self.authority).issue("berthmaster-webhook", hosts=(HOST,))

    def write(self, pair: Pair) -> None:
        """Let the replicas serve a certificate from now on."""
        pair.write(self.certificate_file, self.key_file)

    def start(self, *flags: str, command: Sequence[str | Path] = (COMMAND,)) -> Serving:
        replica = serve(
            self._processes, "webhook", (*command, "webhook"), f"--mode={self._mode}",
            f"--cert-file={self.certificate_file}", f"--key-file={self.key_file}", *flags,
        )  # fmt: skip
        self._replicas.append(replica)
        self.front.add(replica.port, replica.ready)
        return replica

    def retire(self, replica: Serving) -> None:
        """Stop a replica as a kubelet does: it leaves the address first, and then gets SIGTERM."""
        self.front.remove(replica.port)
        replica.process.stop()

    def close(self) -> None:
        """Take the address away, and its replicas without ceremony."""
        self.front.close()
        for replica in self._replicas:
            replica.process.ask_to_stop(signal.SIGQUIT)
        for replica in self._replicas:
            replica.process.stop()
