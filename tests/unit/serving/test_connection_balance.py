"""What workers tell each other."""

import os

import pytest

from berthmaster.serving.connection_balance import Crew


@pytest.mark.parametrize(
    ("others", "mine", "should"),
    [
        pytest.param([], 5, False, id="nobody else is there"),
        pytest.param([5, 3], 4, True, id="one has fewer"),
        pytest.param([5, 3], 3, False, id="none has fewer"),
        pytest.param([100], 112, False, id="one of many has little fewer"),
        pytest.param([100], 113, True, id="one of many has clearly fewer"),
    ],
)
def test_the_next_is_for_the_worker_with_the_fewest(others, mine, should):
    crew = Crew(3)
    for worker, connections in enumerate(others):
        crew.tell(worker, connections)
    assert crew.others_should(mine) == should


def test_a_worker_that_ended_gets_none():
    crew = Crew(1)
    crew.tell(1, 5)
    crew.tell(2, 1)
    assert crew.others_should(3)
    crew.ended(2)
    assert not crew.others_should(3)


def test_other_processes_see_it():
    crew = Crew(1)
    if child := os.fork():
        os.waitpid(child, 0)
        assert not crew.others_should(7)
    else:
        crew.tell(1, 7)
        os._exit(0)
