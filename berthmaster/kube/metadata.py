"""Objects without anything but their metadata: all that is needed of kinds nobody here knows."""

from berthmaster.kube.requests import ONLY_METADATA, ONLY_METADATA_OF_MANY, Request
from berthmaster.kube.transport import Answer, Connection


class MetadataOnly:
    """A connection over which objects come as ``PartialObjectMetadata``; see ``Connection``.

    A server that cannot take objects apart, as some behind the aggregation layer, sends them whole.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, request: Request) -> Answer:
        """Send a request; see ``Connection``. The server refuses one object as a list, and a list as one object."""
        accept = ONLY_METADATA_OF_MANY if request.verb == "list" else ONLY_METADATA
        return self._connection.send(request._replace(accept=accept))
