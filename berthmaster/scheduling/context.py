"""What a plugin sees of a decision."""

import msgspec

from berthmaster.scheduling.columns import Work
from berthmaster.scheduling.fleet import CompiledPlacement, Fleet, Group
from berthmaster.scheduling.peers import Peers
from berthmaster.scheduling.request import Request


class Context(msgspec.Struct, frozen=True):
    """One attempt: a request, and the group of clusters that is being tried.

    ``work``: counts the steps of the decision. A stage adds steps that grow faster than the number of clusters.
    """

    fleet: Fleet
    request: Request
    compiled: CompiledPlacement
    group: Group
    peers: Peers
    work: Work = msgspec.field(default_factory=Work)
