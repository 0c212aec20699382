"""A loss or an edit of a policy leaves the workloads that answers say: the model of Karmada and its members judges.

The answers are those of simulations, plans, failures, the gate's reviews and the page What if. The fleets have clusters
that are not ready, suspended dispatching, eviction tasks of each purge mode, workloads without replicas and overrides.
`make test` plays some. `make bench-left-property` plays thousands: FLEETS is their number for each
scheduler. A fleet has six workloads.
"""

import os
from collections import Counter

import pytest
from losing_fleet import LosingFleet

FLEETS = int(os.environ.get("FLEETS", "6"))
FROM = int(os.environ.get("FLEETS_FROM", "0"))
CHUNK = 6


@pytest.mark.parametrize("first", range(FROM, FROM + FLEETS, CHUNK))
@pytest.mark.parametrize("own", [True, False], ids=["Berthmaster's scheduler", "karmada-scheduler"])
def test_what_a_loss_leaves_is_what_the_answers_say(first: int, own: bool):  # noqa: FBT001 - a parameter
    cases: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        fleet = LosingFleet(seed, own=own)
        differences = list(fleet.differences())
        assert not differences, f"fleet {seed}: " + "\n".join(differences)
        cases += fleet.cases
    assert cases["nowhere"] + cases["short"]
