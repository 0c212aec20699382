"""Worlds that assume eviction and preemption on, for tests of what then moves."""

from functools import partial

from berthmaster.simulation import world
from berthmaster.simulation.plan_answer import Switch, assumptions

ALL_ON = assumptions(Switch.ON, Switch.ON, None, ())
world_of = partial(world.world_of, assumptions=ALL_ON)
