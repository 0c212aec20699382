"""Which resources of a control plane have certain labels. The API server selects them, one kind at a time."""

from functools import partial

from berthmaster.kube.client import ask
from berthmaster.kube.http_client import connect
from berthmaster.kube.kubeconfig import ClusterAccess
from berthmaster.kube.listing import pages
from berthmaster.kube.requests import ONLY_METADATA_LIST
from berthmaster.kube.served_types import discover_types
from berthmaster.model.errors import ApiError, InputError
from berthmaster.model.meta import Key


class LabelledResources:
    """The resources that a selector chooses, as they are now. A kind is listed when it is asked for, and only once.

    Args:
        selector: a label selector, as the API server reads it.
        namespace: the only namespace that is read; empty for all.
    """

    def __init__(self, access: ClusterAccess, selector: str, namespace: str = "") -> None:
        self._client, self._server = connect(access), str(access)
        self._selector, self._namespace = selector, namespace
        self._types = discover_types(self._client)
        self._found: dict[str, frozenset[Key]] = {}

    def has(self, kind: str, key: Key) -> bool:
        """Return whether the resource exists and has the labels. Raises ``InputError`` without the right to list."""
        if kind not in self._found:
            self._found[kind] = frozenset(self._listed(kind))
        return key in self._found[kind]

    def _listed(self, kind: str) -> list[Key]:
        served = self._types.resolve(kind)
        if served is None or "list" not in served.verbs or (self._namespace and not served.namespaced):
            return []
        send = partial(ask, self._client)
        listing = pages(
            send, served.collection, namespace=self._namespace, labels=self._selector, accept=ONLY_METADATA_LIST
        )
        try:
            return [key for part in listing for key, _ in part.objects]
        except ApiError as error:
            if not error.forbidden:
                raise
        raise InputError(f"{self._server}: no right to list {served}, whose labels -l compares")
