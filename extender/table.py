"""Every route of the service, of all protocols."""

from collections.abc import Sequence

from extender.protocols import kube_scheduler, kubeadmiral, native
from extender.protocols.route import Route


def all_routes(
    *, pass_in_doubt: bool = True, kube_scheduler_options: kube_scheduler.Options | None = None
) -> Sequence[Route]:
    """The routes, with memories of their own.

    Args:
        pass_in_doubt: see ``extender.protocols.kubeadmiral.routes``.
        kube_scheduler_options: see ``extender.protocols.kube_scheduler.Options``.
    """
    return [
        *native.routes(),
        *kubeadmiral.routes(pass_in_doubt=pass_in_doubt),
        *kube_scheduler.routes(kube_scheduler_options),
    ]
