"""An API server with scripted responses, for tests of code that only sends requests."""

import json
from collections.abc import Mapping
from datetime import datetime
from email.utils import format_datetime
from typing import Any

from answers import ReadyAnswer

from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError


class ScriptedAPI:
    """An ``APIClient`` that responds by method and path, and with 404 to anything else.

    Attributes:
        answers: by ``GET /version`` and so on: an object, an error, a function of the request, or a list with one of
            these for each request.
        asked: every request so far.
        headers: the headers of each response.
    """

    def __init__(self, answers: Mapping[str, Any], *, now: datetime | None = None) -> None:
        self.answers = dict(answers)
        self.asked: list[APIRequest] = []
        self.headers: dict[str, list[str]] = {"Date": [format_datetime(now, usegmt=True)]} if now else {}

    def send(self, request: APIRequest) -> ReadyAnswer:
        """Record the request and return its response."""
        self.asked.append(request)
        answer = self.answers.get(f"{request.method} {request.path}")
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if callable(answer):
            answer = answer(request)
        if answer is None:
            raise ApiError(404, "NotFound", f"{request.method} {request.path}: 404 not found")
        if isinstance(answer, Exception):
            raise answer
        return ReadyAnswer([json.dumps(answer).encode()], self.headers)
