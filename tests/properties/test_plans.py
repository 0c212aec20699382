"""Plans and losses, against a model."""

import pytest
from edited_fleet import EditedFleet
from lost_fleet import MODES, LostFleet

FLEETS = 14
EDITS = 11


@pytest.mark.parametrize("deducts", [pytest.param(False, id="Karmada"), pytest.param(True, id="Berthmaster")])
@pytest.mark.parametrize("seed", range(FLEETS))
def test_a_plan_says_what_then_happens(seed, deducts):
    fleet = EditedFleet(seed, deducts=deducts)
    differences = [each for _ in range(EDITS) for each in fleet.edit()]
    assert differences == []


LOSSES_FLEETS = 3


@pytest.mark.parametrize("own", [pytest.param(False, id="Karmada"), pytest.param(True, id="Berthmaster")])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(LOSSES_FLEETS))
def test_a_simulation_of_a_lost_cluster_says_what_then_happens(seed, mode, own):
    assert LostFleet(seed, mode, own=own).differences() == []
