"""kube-scheduler's extender protocol, v1, for fleets whose clusters are nodes of one control plane.

``wire`` decodes requests and encodes answers. ``placements`` finds the placement of a pod. ``nodes`` ranks the nodes of
a request in that placement. ``handlers`` combines them, and keeps what later calls need.
"""

from collections.abc import Sequence
from typing import Final

from extender.protocols.cheap_requests import is_light
from extender.protocols.kube_scheduler.handlers import PROTOCOL, Extender, KubeSchedulerOptions
from extender.protocols.route import Route

PREFIX: Final = "/kube-scheduler"
_WHEN_TOO_LARGE: Final = (
    "raise --max-body-bytes, or let kube-scheduler send names only: nodeCacheCapable: true and --watch nodes"
)


def routes(options: KubeSchedulerOptions | None = None) -> Sequence[Route]:
    """Return the routes of the three verbs."""
    extender = Extender(options or KubeSchedulerOptions())
    verbs = {"filter": extender.filter, "prioritize": extender.prioritize, "preempt": extender.preempt}
    return [
        Route(
            "POST",
            f"{PREFIX}/{verb}",
            handler,
            PROTOCOL,
            brings_fleet=True,
            decodes_parts=True,
            when_too_large=_WHEN_TOO_LARGE,
            cheap=is_light,
        )
        for verb, handler in verbs.items()
    ]


__all__ = ["PREFIX", "PROTOCOL", "KubeSchedulerOptions", "routes"]
