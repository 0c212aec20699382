"""What a plan says is what then happens: random edits of policies, on a model of Karmada with the binding scheduler.

``make bench-plan-property`` checks 10,000 edits.
"""

import pytest
from edited_fleet import EditedFleet

FLEETS = 14
EDITS = 11


@pytest.mark.parametrize("deducts", [pytest.param(False, id="Karmada"), pytest.param(True, id="Berthmaster")])
@pytest.mark.parametrize("seed", range(FLEETS))
def test_a_plan_says_what_then_happens(seed, deducts):
    fleet = EditedFleet(seed, deducts=deducts)
    differences = [each for _ in range(EDITS) for each in fleet.edit()]
    assert differences == []
