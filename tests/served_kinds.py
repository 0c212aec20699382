"""What discovery says of the kinds that an API server serves."""

from collections.abc import Mapping
from typing import Any

from berthmaster.kube.requests import Collection
from berthmaster.model.errors import ApiError

VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


class ServedKinds:
    """Kinds by their groups and versions."""

    def __init__(self) -> None:
        self._resources: dict[str, list[dict[str, Any]]] = {}

    def add(self, api_version: str, kind: str, plural: str, *, namespaced: bool = True) -> None:
        """Serve a kind."""
        resource = {"name": plural, "kind": kind, "namespaced": namespaced, "verbs": VERBS}
        self.resources(api_version).append(resource)

    def resources(self, api_version: str) -> list[dict[str, Any]]:
        """What is said of a group and version, to be changed at will."""
        return self._resources.setdefault(_root(api_version), [])

    def withdraw(self, api_version: str) -> None:
        """Serve the kinds of a group and version no more."""
        del self._resources[_root(api_version)]

    def answer(self, root: str) -> dict[str, Any]:
        """The answer to who asks what is served there.

        Raises:
            ApiError: nothing is.
        """
        if root not in self._resources:
            raise ApiError(404, "NotFound", f"{root} is not served")
        return {"kind": "APIResourceList", "resources": self._resources[root]}

    def path(self, manifest: Mapping[str, Any]) -> str:
        """Where an object is served by what it says of itself."""
        api_version, metadata = manifest["apiVersion"], manifest["metadata"]
        plurals = {each["kind"]: each["name"] for each in self.resources(api_version)}
        collection = Collection.of(api_version, plurals[manifest["kind"]])
        return collection.object((metadata.get("namespace", ""), metadata["name"]))


def _root(api_version: str) -> str:
    return f"/{'apis' if '/' in api_version else 'api'}/{api_version}"
