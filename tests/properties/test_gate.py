"""Random histories of policies behind the gate: no change moves more than the limit, whatever came before it.

``make test`` plays some. ``make bench-gate-histories`` plays thousands: GATE_HISTORIES is their number.
"""

import logging
import os
from collections.abc import Iterator

import pytest
from gated_histories import GatedHistory

from extender.protocols.native import review

HISTORIES = int(os.environ.get("GATE_HISTORIES", "60"))
FROM = int(os.environ.get("GATE_HISTORIES_FROM", "0"))
SEQUENCES = 10
"""How many sequences one fleet sees."""
ACTIONS = 8
TURN_STEPS = (0, 10, 2500)
"""How many steps a review takes before it needs a long plan: always, soon, never."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Log no watches that end with their extender."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", range(FROM, FROM + HISTORIES // SEQUENCES))
def test_no_change_moves_more_than_the_limit(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(review, "_TURN_STEPS", TURN_STEPS[seed % len(TURN_STEPS)])
    history = GatedHistory(seed)
    try:
        for _ in range(SEQUENCES):
            assert history.play(ACTIONS) == []
    finally:
        history.close()
    assert history.stored
    assert history.refused
