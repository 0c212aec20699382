"""What visitors read if the extender does not answer."""

import pytest

from berthmaster.model.errors import ServiceError
from berthmaster.native_api.connection import RequestRefusedError, UnansweredError
from berthmaster.native_api.wire import Problem
from console.source import for_visitors


@pytest.mark.parametrize(
    ("error", "message", "status"),
    [
        pytest.param(
            RequestRefusedError(Problem("", 404, "there is no binding 'a/b'", "1"), 404),
            "There is no binding 'a/b' (request 1)", 404, id="a refusal",
        ),
        pytest.param(
            UnansweredError("http://h:1", "cannot be reached: connection refused"),
            "The extender at http://h:1 cannot be reached: connection refused", 0, id="a lost extender",
        ),
        pytest.param(
            UnansweredError("http://h:1", "sent an answer that cannot be decoded: is no JSON", 200),
            "The extender at http://h:1 sent an answer that cannot be decoded: is no JSON", 200, id="no JSON",
        ),
        pytest.param(
            ServiceError("the service answered 502 Bad Gateway", 502),
            "The service answered 502 Bad Gateway", 502, id="a proxy",
        ),
        pytest.param(
            UnansweredError("http://h:1", "cannot be reached: the read operation ended", late=True),
            "The extender did not answer in time. Try again later, or ask for less.", 503, id="a slow extender",
        ),
        pytest.param(
            RequestRefusedError(Problem("", 401, "a valid bearer token is required", "1"), 401),
            "The extender does not accept the credentials of the console.", 401, id="credentials of the console",
        ),
    ],
)  # fmt: skip
def test_an_error_is_a_sentencefor_visitors(error, message, status):
    found = for_visitors(error)
    assert (str(found), found.status) == (message, status)
