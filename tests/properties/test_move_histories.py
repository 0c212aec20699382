"""Random histories of a fleet in trouble: healthy replicas stay, budgets hold, one group at rest, everything ends.

``make test`` plays some. ``make bench-moves-histories`` plays thousands: MOVE_HISTORIES is their number.
"""

import os

import pytest
from move_histories import History

HISTORIES = int(os.environ.get("MOVE_HISTORIES", "12"))
FROM = int(os.environ.get("MOVE_HISTORIES_FROM", "0"))
CHUNK = 12
ACTIONS = 12


@pytest.mark.parametrize("first", range(FROM, FROM + HISTORIES, CHUNK))
def test_healthy_replicas_stay_and_every_history_ends_at_rest(first: int):
    histories = [History(seed) for seed in range(first, first + CHUNK)]
    for history in histories:
        history.play(ACTIONS)
    assert sum(each.checked for each in histories), "no write of a move was checked"
    assert first or sum(each.rebalances for each in histories), "the first histories repair no drift"
