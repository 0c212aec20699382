"""Simulations, plans and failures, the extender and the console give equal figures for the same question.

``make test`` asks about some fleets. ``make bench-question-property`` asks 10,000 questions: QUESTION_FLEETS is the
number of fleets for each scheduler, with about 30 questions each.
"""

import os
import random

import pytest
from fleet_in_use import FleetInUse
from one_question import Interview

FLEETS = int(os.environ.get("QUESTION_FLEETS", "2"))
FROM = int(os.environ.get("QUESTION_FLEETS_FROM", "0"))


@pytest.mark.parametrize("seed", range(FROM, FROM + FLEETS))
@pytest.mark.parametrize("own", [True, False], ids=["Berthmaster's scheduler", "karmada-scheduler"])
def test_each_question_has_one_answer(seed: int, own: bool):  # noqa: FBT001 - a parameter
    asked = Interview(FleetInUse(seed, own=own), random.Random(seed))
    found = list(asked.disagreements())
    assert asked.questions
    assert not found, "\n".join(found)
