"""What befalls requests on their way: for ``before`` and ``after`` of ``KubeInMemory``."""

from collections.abc import Callable

from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError

Fault = Callable[[APIRequest], object]
"""Told of a request; it may do anything meanwhile, and an ``ApiError`` that it raises is the answer."""


def nothing(_request: APIRequest) -> None:
    """All goes well."""


def lose(_request: APIRequest) -> None:
    """Nobody answers."""
    raise ApiError(0, "", "the connection broke")


def refuse(status: int, reason: str = "Told", retry_after_s: float = 0.0, message: str = "") -> Fault:
    """The server answers with an error."""

    def fault(_request: APIRequest) -> None:
        raise ApiError(status, reason, message or f"{status} {reason}, as told", retry_after_s)

    return fault


def in_turn(*faults: Fault) -> Fault:
    """One fault after the other, each for one request; then nothing any more."""
    left = list(faults)
    return lambda request: left.pop(0)(request) if left else None


def only(fault: Fault, *methods: str, part: str = "", times: int | None = None) -> Fault:
    """A fault of the first requests of some methods (of any, if none is named) whose path has a part."""
    befallen = 0

    def some(request: APIRequest) -> None:
        nonlocal befallen
        if (methods and request.method not in methods) or part not in request.path or befallen == times:
            return
        befallen += 1
        fault(request)

    return some
