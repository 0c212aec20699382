"""Lists Karmada's Works."""

from functools import partial
from typing import Final

from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.kinds import WORKS
from berthmaster.kube.listing import Unread, pages
from berthmaster.kube.requests import decode_response, key_text
from berthmaster.model.errors import ApiError
from berthmaster.model.work import KarmadaWork

_READ_TIMEOUT_S: Final = 10.0


def list_works(client: APIClient, most: int, *, namespace: str = "", labels: str = "") -> list[KarmadaWork]:
    """List the Works of a namespace, or with some labels. Raises ``ApiError`` if the list is not complete."""
    found: list[KarmadaWork] = []
    listed = pages(
        partial(ask, client), WORKS, namespace=namespace, labels=labels, read_timeout_s=_READ_TIMEOUT_S, most=most
    )
    for key, content in (each for part in listed for each in part.objects):
        if isinstance(content, Unread):
            raise ApiError(0, "", f"the Work {key_text(key)} {content.problem}")
        found.append(decode_response(KarmadaWork, bytes(content), "a Work"))
    return found
