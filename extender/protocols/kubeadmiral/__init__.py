"""KubeAdmiral's scheduler webhook: filter, score and select; and decisions on a federation's objects."""

from collections.abc import Sequence

from berthmaster.model.placement_limits import DEFAULT_LIMITS, PlacementLimits
from extender.protocols.kubeadmiral import plugin
from extender.protocols.kubeadmiral.schedule import federation_route
from extender.protocols.route import Route

__all__ = ["routes"]


def routes(*, pass_in_doubt: bool = True, limits: PlacementLimits = DEFAULT_LIMITS) -> Sequence[Route]:
    """Return the routes of the protocol; see ``plugin.routes``."""
    own = federation_route(plugin.PROTOCOL, f"{plugin.PREFIX}/schedule")
    return [*plugin.routes(pass_in_doubt=pass_in_doubt, limits=limits), own]
