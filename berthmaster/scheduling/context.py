"""What a plugin sees of a decision."""

import msgspec

from berthmaster.scheduling.compiled_placement import CompiledPlacement, Group
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.peers import Peers
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.steps import Work


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
