"""Objects without anything but their metadata: all that is needed of kinds nobody here knows."""

from typing import Final

from fleet.kube.requests import Request
from fleet.kube.transport import Answer, Connection

# A server that cannot take objects apart, as some behind the aggregation layer, sends them whole.
_FORM: Final = "application/json;as={};g=meta.k8s.io;v=v1,application/json"


class MetadataOnly:
    """A connection over which objects come as ``PartialObjectMetadata``; see ``Connection``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, request: Request) -> Answer:
        """Send a request; see ``Connection``."""
        return self._connection.send(request._replace(accept=_FORM.format(_kind(request))))


def _kind(request: Request) -> str:
    """As what the answer is wanted; the server refuses one object as a list, and a list as one object."""
    query = dict(request.query)
    return "PartialObjectMetadataList" if "limit" in query else "PartialObjectMetadata"
