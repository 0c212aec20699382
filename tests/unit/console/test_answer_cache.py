"""Kept answers: when a question is asked again."""

import threading
from types import SimpleNamespace

import pytest

from console.source import AnswerCache


class Extender:
    """Answers with its version, and counts the questions."""

    def __init__(self, version="1"):
        self.version, self.asked = version, 0

    def ask(self):
        self.asked += 1
        return SimpleNamespace(version=self.version, number=self.asked)


def answer(cache, extender, version="1", question="fleet"):
    return cache.answer(question, version, extender.ask, lambda found: found.version).number


def test_a_question_is_asked_once_for_each_version():
    cache, extender = AnswerCache(), Extender()
    assert [answer(cache, extender), answer(cache, extender)] == [1, 1]
    extender.version = "2"
    assert [answer(cache, extender, "2"), answer(cache, extender, "2")] == [2, 2]


def test_other_questions_have_answers_of_their_own():
    cache, extender = AnswerCache(), Extender()
    assert [answer(cache, extender), answer(cache, extender, question="moves")] == [1, 2]


def test_an_answer_about_another_version_is_not_kept():
    cache, extender = AnswerCache(), Extender("old")
    assert [answer(cache, extender), answer(cache, extender)] == [1, 2]


def test_without_a_known_version_every_question_is_asked():
    cache, extender = AnswerCache(), Extender()
    assert [answer(cache, extender, ""), answer(cache, extender, "")] == [1, 2]


def test_an_error_is_raised_and_not_kept():
    cache, extender = AnswerCache(), Extender()

    def fail():
        raise ValueError("lost")

    with pytest.raises(ValueError, match="lost"):
        cache.answer("fleet", "1", fail, lambda _found: "1")
    assert answer(cache, extender) == 1


def test_the_answer_that_was_not_used_for_longest_is_forgotten():
    cache, extender = AnswerCache(max_answers=2), Extender()
    for question in ("a", "b", "a", "c"):
        answer(cache, extender, question=question)
    assert answer(cache, extender, question="a") == 1
    assert answer(cache, extender, question="b") == 4


def test_equal_questions_at_one_time_are_asked_once():
    cache, extender = AnswerCache(), Extender()
    asked, release = threading.Event(), threading.Event()

    def slow():
        asked.set()
        assert release.wait(30)
        return extender.ask()

    numbers = []
    threads = [
        threading.Thread(
            target=lambda: numbers.append(cache.answer("fleet", "1", slow, lambda found: found.version).number)
        )
        for _ in range(3)
    ]
    threads[0].start()
    assert asked.wait(30)
    for each in threads[1:]:
        each.start()
    release.set()
    for each in threads:
        each.join(30)
    assert (numbers, extender.asked) == ([1, 1, 1], 1)
