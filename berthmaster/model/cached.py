"""Properties that are computed once."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801 - it stands for the one of functools
    """``functools.cached_property`` as it is since Python 3.12: without a lock.

    The lock of Python 3.11 is held while the property is computed, for all instances. A process that is forked at that
    moment would wait for it forever.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = ""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, _owner: type) -> T:  # noqa: ANN401 - an instance of any class
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
