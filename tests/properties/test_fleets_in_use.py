"""A simulation without changes says what the schedulers then do, in every state that bindings and clusters can have.

``make test`` plays some fleets. ``make bench-present-property`` plays thousands: FLEETS is their number for each
scheduler. A fleet has six workloads.
"""

import os
from collections import Counter

import pytest
from fleet_in_use import FleetInUse

FLEETS = int(os.environ.get("FLEETS", "8"))
FROM = int(os.environ.get("FLEETS_FROM", "0"))
CHUNK = 8


@pytest.mark.parametrize("first", range(FROM, FROM + FLEETS, CHUNK))
@pytest.mark.parametrize("own", [True, False], ids=["Berthmaster's scheduler", "karmada-scheduler"])
def test_a_simulation_without_changes_is_what_the_schedulers_do(first: int, own: bool):  # noqa: FBT001 - a parameter
    cases: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        fleet = FleetInUse(seed, own=own)
        differences = fleet.differences()
        assert not differences, f"fleet {seed}: " + "\n".join(differences)
        cases += fleet.cases
    assert all(cases[each] for each in ("moves", "stays"))
