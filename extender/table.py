"""Every route of the service, of all protocols."""

from collections.abc import Sequence

from extender.protocols import kubeadmiral, native
from extender.protocols.route import Route


def all_routes(*, pass_in_doubt: bool = True) -> Sequence[Route]:
    """The routes, with memories of their own.

    Args:
        pass_in_doubt: see ``extender.protocols.kubeadmiral.routes``.
    """
    return [*native.routes(), *kubeadmiral.routes(pass_in_doubt=pass_in_doubt)]
