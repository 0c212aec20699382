"""What a simulation of a lost or deleted cluster says is what then happens, for both schedulers.

``make bench-loss-property`` checks more fleets.
"""

import pytest
from lost_fleet import MODES, LostFleet

FLEETS = 3


@pytest.mark.parametrize("own", [pytest.param(False, id="Karmada"), pytest.param(True, id="Berthmaster")])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(FLEETS))
def test_a_simulation_of_a_lost_cluster_says_what_then_happens(seed, mode, own):
    assert LostFleet(seed, mode, own=own).differences() == []
