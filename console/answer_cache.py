"""Answers of the extender, kept while its state does not change. Equal questions at one time are asked once."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, TypeVar

_MAX_ANSWERS: Final = 64

T = TypeVar("T")


class _Kept(NamedTuple):
    version: str
    answer: "Future[Any]"


class AnswerCache:
    """Answers by question. Safe for several threads. The answer that was not used for longest is forgotten."""

    def __init__(self, max_answers: int = _MAX_ANSWERS) -> None:
        self._max_answers = max_answers
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, question: Hashable, version: str, ask: Callable[[], T], version_of: Callable[[T], str]) -> T:
        """Return the answer to a question, and ask only if no answer about this version is kept.

        Args:
            question: the question with its arguments.
            version: the version of the extender's state; empty if it is not known. Then the question is asked.
            ask: asks the question. Its errors are raised, and not kept.
            version_of: returns the version that an answer is about. An answer about another version is not kept: the
                processes of an extender see a change one after the other.
        """
        if not version:
            return ask()
        with self._lock:
            kept = self._kept.get(question)
            asked_by_other = kept is not None and kept.version == version
            if kept is None or not asked_by_other:
                kept = self._kept[question] = _Kept(version, Future())
                if len(self._kept) > self._max_answers:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(question)
        if asked_by_other:
            found: T = kept.answer.result()
            return found
        try:
            answer = ask()
        except BaseException as error:
            self._forget(question, kept)
            kept.answer.set_exception(error)
            raise
        if version_of(answer) != version:
            self._forget(question, kept)
        kept.answer.set_result(answer)
        return answer

    def _forget(self, question: Hashable, kept: _Kept) -> None:
        with self._lock:
            if self._kept.get(question) is kept:
                del self._kept[question]
