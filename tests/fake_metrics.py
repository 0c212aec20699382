"""Metrics that a test can read."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from prometheus_client import REGISTRY

RESULTS = ("success", "requeued", "conflict", "error", "crash")


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


class Counted:
    """What a counter has counted since this object was made, by the value of the label ``result``."""

    def __init__(self, name: str, **labels: str) -> None:
        self._name, self._labels = name, labels
        self._before = self._read()

    @property
    def results(self) -> Counter[str]:
        return self._read() - self._before

    def _read(self) -> Counter[str]:
        values = {each: REGISTRY.get_sample_value(self._name, {**self._labels, "result": each}) for each in RESULTS}
        return Counter({result: int(value) for result, value in values.items() if value})


def reconciles(controller: str) -> Counted:
    return Counted("berthmaster_controllers_reconciles_total", controller=controller)
