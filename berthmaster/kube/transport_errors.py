"""What an error of a connection to an API server says, and what to do about it."""

import http.client
import ssl

import urllib3

from berthmaster.model.foreign_texts import without_urllib3_object


def describe(error: Exception) -> str:
    """Describe a transport error in one line of bounded length."""
    return " ".join(str(error).split())[:512] or type(error).__name__


def transport_problem(error: Exception, when: str) -> str:
    """Say what went wrong on a connection, and when the server closed it."""
    if isinstance(error, urllib3.exceptions.TimeoutError | TimeoutError):
        return "the server sent nothing before the read timeout"
    if is_closed(error):
        return f"the server closed the connection {when}"
    invalid = any(isinstance(each, http.client.HTTPException) for each in _causes(error))
    problem = without_urllib3_object(describe(error))
    return f"the server does not speak HTTP: {problem}" if invalid else problem


def is_closed(error: Exception) -> bool:
    """Return whether the server closed the connection. urllib3 names no cause if that ends a chunked body."""
    causes = _causes(error)
    if any(isinstance(each, urllib3.exceptions.InvalidChunkLength) for each in causes):
        return False
    closed = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError, http.client.IncompleteRead)
    ended = isinstance(error, urllib3.exceptions.ProtocolError) and len(causes) == 1
    return ended or any(isinstance(each, closed) for each in causes)


def _causes(error: Exception) -> list[Exception]:
    """Return an error of urllib3 and the errors that it stands for."""
    return [error, *(each for each in error.args if isinstance(each, Exception))]


def transport_remedy(error: Exception) -> str:
    causes = _causes(error)
    if any(isinstance(each, ssl.SSLCertVerificationError) for each in causes):
        return "check the certificate authority and the tls-server-name of the kubeconfig"
    if any(isinstance(each, ssl.SSLError | urllib3.exceptions.SSLError) for each in causes):
        return "check that the port speaks TLS, and the server URL of the kubeconfig"
    return "check that it runs, and the server URL of the kubeconfig"
