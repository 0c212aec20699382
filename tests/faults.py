"""Faults for ``before`` and ``after`` of ``KubeInMemory``."""

import re
from collections.abc import Callable

from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError

Fault = Callable[[APIRequest], object]
"""Called with a request. It may do anything. An ``ApiError`` that it raises is the response."""


def nothing(_request: APIRequest) -> None:
    """Do nothing."""


def lose(_request: APIRequest) -> None:
    raise ApiError(0, "", "the connection broke")


def refuse(status: int, reason: str = "Injected", retry_after_s: float = 0.0, message: str = "") -> Fault:

    def fault(_request: APIRequest) -> None:
        raise ApiError(status, reason, message or f"{status} {reason}", retry_after_s)

    return fault


def in_turn(*faults: Fault) -> Fault:
    """Apply each fault to one request in order, then none."""
    left = list(faults)
    return lambda request: left.pop(0)(request) if left else None


def only(fault: Fault, *methods: str, part: str = "", times: int | None = None) -> Fault:
    """Apply a fault to the first ``times`` requests with one of the methods, or any, and ``part`` found in the path."""
    applied = 0

    def some(request: APIRequest) -> None:
        nonlocal applied
        if (methods and request.method not in methods) or not re.search(part, request.path) or applied == times:
            return
        applied += 1
        fault(request)

    return some
