"""kube-scheduler's extender protocol, v1: for fleets whose clusters are nodes of one control plane.

``wire`` and ``codec`` are what goes over the wire, ``placing`` finds a pod's placement, ``steps`` says where a node
stands in it, ``nodes`` asks that of known and of shown nodes, ``verdict``, ``grades`` and ``preemption`` are the three
verbs; ``handlers`` puts them together.
"""

from collections.abc import Sequence
from typing import Final

from berthmaster.scheduling.profile import Profile
from extender.protocols.kube_scheduler.handlers import PROTOCOL, Extender, Options
from extender.protocols.route import Route

PREFIX: Final = "/kube-scheduler"


def routes(options: Options | None = None, profile: Profile | None = None) -> Sequence[Route]:
    """The three verbs.

    Args:
        options: how the protocol is configured.
        profile: the plugins that take part; Karmada's by default, for placements are Karmada's.
    """
    extender = Extender(options or Options(), profile)
    verbs = {"filter": extender.filter, "prioritize": extender.prioritize, "preempt": extender.preempt}
    return [Route("POST", f"{PREFIX}/{verb}", handler, PROTOCOL, prompt=True) for verb, handler in verbs.items()]


__all__ = ["PREFIX", "PROTOCOL", "Options", "routes"]
