"""What visitors read if the extender does not answer."""

import pytest

from berthmaster.model.errors import ServiceError
from console.extender_source import _for_visitors


@pytest.mark.parametrize(
    ("error", "message", "status"),
    [
        pytest.param(
            ServiceError("the service refused the request: there is no binding 'a/b' (request 1)", 404),
            "There is no binding 'a/b' (request 1)", 404, id="a refusal",
        ),
        pytest.param(
            ServiceError("http://h:1 cannot be reached: connection refused"),
            "The extender at http://h:1 cannot be reached: connection refused", 0, id="a lost extender",
        ),
        pytest.param(
            ServiceError("http://h:1 cannot be reached: timed out"),
            "The extender did not answer in time. Try again later, or ask for less.", 503, id="a slow extender",
        ),
        pytest.param(
            ServiceError("the service refused the request: a valid bearer token is required", 401),
            "The extender does not accept the credentials of the console.", 401, id="credentials of the console",
        ),
    ],
)  # fmt: skip
def test_an_error_is_a_sentence_for_visitors(error, message, status):
    found = _for_visitors(error)
    assert (str(found), found.status) == (message, status)
