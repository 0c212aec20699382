"""The texts of other programs that decide something: they offer no better sign. Tests pin each text.

No other module compares a text with a sentence. ``packaging/message_comparisons.py`` checks that.
"""

import re
from enum import Enum
from typing import Final, NamedTuple

# msgspec's ValidationError. A message may contain values of the document, so only its end is a location.
_LOCATION: Final = re.compile(r" - at `(?:key in )?\$((?:\.[^.\[\]`\s]+|\[\d+\]|\[\.\.\.\])*)`\Z")
_MISMATCH: Final = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<got>[^`]+)`")
_MISSING: Final = re.compile(r"Object missing required field `([^`]+)`")
_INVALID_CHOICE: Final = re.compile(r"Invalid (enum )?value ")
_LIMIT_OF_VALUE: Final = ("Expected `int`", "Expected `str`", "Expected `array`")
# urllib3 begins the text of an error with the address of an object.
_CONNECTION_OBJECT: Final = re.compile(r"HTTPS?Connection\([^)]*\): (?:Failed to establish a new connection: )?")
# kube-apiserver (``plugin/webhook/errors``).
_CALLED: Final = re.compile(r'failed calling webhook "([^"]+)"')
_DENIED: Final = re.compile(r'admission webhook "([^"]+)" denied the request(?:: (.*))?', re.DOTALL)
_URL: Final = re.compile(r'Post "[^"]*"')


class DecodingProblem(NamedTuple):
    """What msgspec says about an invalid document.

    Attributes:
        location: where in the document, as msgspec writes it.
        expected: the accepted type of a value of a wrong type; empty for another problem.
        out_of_range: whether a number, the length of a text or that of a list is out of range.
    """

    location: str
    text: str
    expected: str
    got: str
    missing: str
    invalid_choice: bool
    out_of_range: bool


def decoding_problem(message: str) -> DecodingProblem:
    located = _LOCATION.search(message)
    text = message[: located.start()] if located else message
    mismatch, missing = _MISMATCH.match(text), _MISSING.match(text)
    out_of_range = text.startswith(_LIMIT_OF_VALUE)
    return DecodingProblem(
        located[1] if located else "",
        f"{text[0].lower()}{text[1:]}" if out_of_range or text.startswith("Object") else text,
        mismatch["expected"] if mismatch else "",
        mismatch["got"] if mismatch else "",
        missing[1] if missing else "",
        _INVALID_CHOICE.match(text) is not None,
        out_of_range,
    )


def without_urllib3_object(text: str) -> str:
    return _CONNECTION_OBJECT.sub("", text)


def failed_webhook(problem: str) -> str:
    """Return the name of the webhook that an error message says could not be called; empty if there is none."""
    found = _CALLED.search(problem)
    return found[1] if found else ""


def denying_webhook(problem: str) -> str:
    """Return the name of the webhook that an error message says denied the request; empty if there is none."""
    found = _DENIED.search(problem)
    return found[1] if found else ""


def reason_of_denial(problem: str) -> str:
    """Return the reason of the webhook that denied a request; the message itself if no webhook did."""
    found = _DENIED.search(problem)
    return (found[2] or "") if found else problem


class CallFailure(Enum):
    """Why a webhook could not be called, by the messages of Go's ``net``, ``crypto/tls`` and ``crypto/x509``."""

    NAME = r"lookup \S+.*(?:no such host|server misbehaving|i/o timeout)|no such host"
    CLOSED = r"connection refused"
    EXPIRED = r"certificate has expired or is not yet valid"
    NAMES = r"certificate is (?:not )?valid for|doesn't contain any IP SANs|not valid for any names"
    AUTHORITY = r"signed by unknown authority|unknown certificate authority|x509: "
    CLIENT = r"certificate required|bad certificate|unknown certificate"
    LATE = r"context deadline exceeded|i/o timeout|Client.Timeout|TLS handshake timeout|request did not complete"
    NETWORK = r"no route to host|network is unreachable|connection reset|EOF|proxyconnect|Address is not allowed"
    ANSWER = r"could not find the requested resource|404|expected webhook response|500|unable to parse|invalid"
    CALL = ""  # any other message


def call_failure(problem: str) -> CallFailure:
    words = _URL.sub("", problem)  # a host may have any name
    return next(each for each in CallFailure if re.search(each.value, words))
