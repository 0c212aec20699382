"""What workers tell each other."""

import os

from fleet.ops.crew import Crew


def test_the_fewest_are_those_of_a_worker_that_is_there():
    crew = Crew(2)
    crew.tell(1, 5)
    crew.tell(2, 3)
    assert crew.fewest() == 3
    crew.ended(2)
    assert crew.fewest() == 5
    crew.tell(3, 0)
    assert crew.fewest() == 0


def test_without_anybody_there_are_none():
    assert Crew(1).fewest() == 0


def test_other_processes_see_it():
    crew = Crew(1)
    crew.tell(1, 9)
    if child := os.fork():
        os.waitpid(child, 0)
        assert crew.fewest() == 7
    else:
        crew.tell(1, 7)
        os._exit(0)
