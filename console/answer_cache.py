"""Answers by question, kept while the state of the extender does not change. Safe for several threads."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

_MAX_ANSWERS: Final = 64

T = TypeVar("T")


class LastAnswer(NamedTuple):
    """An earlier answer to a question."""

    answer: Any
    time: datetime


@dataclass(slots=True)
class _Kept:
    version: str = ""
    asked: "Future[Any] | None" = None
    last: LastAnswer | None = None


class AnswerCache:
    """Answers by question. Safe for several threads. The answer that was not used for longest is forgotten."""

    def __init__(self, max_answers: int = _MAX_ANSWERS) -> None:
        self._max_answers = max_answers
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, question: Hashable, version: str, ask: Callable[[], T], version_of: Callable[[T], str]) -> T:
        """Return the answer to a question, and ask only if no answer about this version is kept.

        Args:
            version: the version of the extender's state; empty if it is not known. Then the question is asked.
            ask: asks the question. Its errors are raised, and not kept.
            version_of: returns the version that an answer is about. An answer about another version is not kept: the
                processes of an extender see a change one after the other.
        """
        if not version:
            return ask()
        with self._lock:
            kept = self._entry(question)
            by_other = kept.asked if kept.version == version else None
            if by_other is None:
                own: Future[Any] = Future()
                kept.version, kept.asked = version, own
        if by_other is not None:
            found: T = by_other.result()
            return found
        try:
            answer = ask()
        except BaseException as error:
            self._forget(kept, own)
            own.set_exception(error)
            raise
        if version_of(answer) != version:
            self._forget(kept, own)
        own.set_result(answer)
        return answer

    def remember(self, question: Hashable, answer: object, time: datetime) -> None:
        with self._lock:
            self._entry(question).last = LastAnswer(answer, time)

    def last(self, question: Hashable) -> LastAnswer | None:
        """Return the last answer to a question, also about another version; None if there is none."""
        with self._lock:
            kept = self._kept.get(question)
            return None if kept is None else kept.last

    def _entry(self, question: Hashable) -> _Kept:
        kept = self._kept.get(question)
        if kept is None:
            kept = self._kept[question] = _Kept()
            if len(self._kept) > self._max_answers:
                self._kept.popitem(last=False)
        self._kept.move_to_end(question)
        return kept

    def _forget(self, kept: _Kept, asked: "Future[Any]") -> None:
        with self._lock:
            if kept.asked is asked:
                kept.version, kept.asked = "", None
