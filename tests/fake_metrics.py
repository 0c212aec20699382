"""Metrics that a test can read."""

from collections.abc import Callable
from typing import Any


class FakeMetrics:
    """Any metrics protocol: records the calls of all methods. Safe for several threads."""

    def __init__(self) -> None:
        self._calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, method: str) -> Callable[..., None]:
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *arguments: self._calls.append((method, arguments))

    def calls_of(self, method: str) -> list[tuple[Any, ...]]:
        return [arguments for called, arguments in list(self._calls) if called == method]
