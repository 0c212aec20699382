"""An API server that answers what it is told to, behind the ``APIClient`` of those who only ask."""

import json
from collections.abc import Mapping
from datetime import datetime
from email.utils import format_datetime
from typing import Any

from answers import ReadyAnswer

from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError

JSON = dict[str, Any]


class ToldApi:
    """Answers by method and path; a 404 for anything else.

    Attributes:
        answers: ``GET /version`` and so on to the object, an error, or several for one request after the other.
        asked: every request so far.
        headers: of each answer.
    """

    def __init__(self, answers: Mapping[str, Any], *, now: datetime | None = None) -> None:
        self.answers = dict(answers)
        self.asked: list[APIRequest] = []
        self.headers: dict[str, list[str]] = {"Date": [format_datetime(now, usegmt=True)]} if now else {}

    def send(self, request: APIRequest) -> ReadyAnswer:
        """See ``APIClient``."""
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
