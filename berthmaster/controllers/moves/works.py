"""Reads the Works of one binding: the copies of its workload, as Karmada sees them."""

from typing import Final

from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.kinds import WORKS
from berthmaster.kube.requests import ListPage, decode_response, page
from berthmaster.model.binding import Binding
from berthmaster.model.errors import ApiError
from berthmaster.model.work import Copies, KarmadaWork, copies_of, work_selector

MAX_PAGES: Final = 40
"""The most pages of the Works of one binding, of 500 each. A fleet has fewer clusters."""
_READ_TIMEOUT_S: Final = 10.0


class WorkReader:
    """Lists Works by the permanent id of their binding. It keeps nothing, because few bindings move at a time."""

    def __init__(self, client: APIClient) -> None:
        self._client = client

    def read(self, binding: Binding) -> Copies:
        """Return the copies of a workload. It never raises: ``problem`` says why they could not be read."""
        selector = work_selector(binding)
        if not selector:
            return Copies(problem="the binding has no permanent id, so its Works cannot be found; Karmada sets the id")
        try:
            return copies_of(self._list(selector))
        except ApiError as error:
            return Copies(problem=f"the Works of the binding cannot be read: {error}")

    def _list(self, selector: str) -> list[KarmadaWork]:
        """Raise ``ApiError`` if the list is not complete."""
        found: list[KarmadaWork] = []
        token = ""
        for _ in range(MAX_PAGES):
            body = ask(self._client, page(WORKS, token, _READ_TIMEOUT_S, labels=selector))
            listed = decode_response(ListPage, body, "a list of Works")
            found += [decode_response(KarmadaWork, each, "a Work") for each in listed.items or ()]
            token = listed.metadata.continue_
            if not token:
                return found
        raise ApiError(0, "", f"the binding has more than {len(found)} Works")
