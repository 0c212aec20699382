"""Who is overdue."""

from berthmaster.serving.waiting import Waiting


def test_they_are_overdue_in_the_order_in_which_they_came():
    waiting = Waiting(10)
    for now, client in enumerate("abc"):
        waiting.add(client, now)
    assert [waiting.overdue(now) for now in (9, 10, 11, 99)] == [[], ["a"], ["a", "b"], ["a", "b", "c"]]
    assert waiting.longest() == "a"


def test_who_is_added_again_waits_anew():
    waiting = Waiting(10)
    waiting.add("a", 0)
    waiting.add("b", 1)
    waiting.add("a", 2)
    assert (waiting.longest(), waiting.overdue(11)) == ("b", ["b"])


def test_who_left_is_not_waited_for():
    waiting = Waiting(10)
    waiting.add("a", 0)
    waiting.discard("a")
    waiting.discard("nobody")
    assert (waiting.longest(), waiting.overdue(99)) == (None, [])
