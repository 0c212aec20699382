"""karmada-webhook: it refuses assignments above a FederatedResourceQuota (karmada ``pkg/webhook/resourcebinding``)."""

import json
from collections.abc import Iterable

from karmada_model.stage import Stage
from kube_store import JSON

from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError
from berthmaster.model.quantity import Quantity


class QuotaWebhook:
    """It is a fault for ``before``: it refuses a patch of a binding, or writes the new use to the quotas.

    Like Karmada, it looks only at patches that change the use. It refuses each use above the limit, also one that is
    smaller than the use before. A write that fails after it leaves no trace: the use is counted anew each time.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def __call__(self, request: APIRequest) -> None:
        spec = (json.loads(request.body) if request.body else {}).get("spec") or {}
        before = self._stage.api.get(request.path) if request.method == "PATCH" and "clusters" in spec else None
        if before is None:
            return
        requests = _requests(before)
        added = _replicas(spec["clusters"] or ()) - _replicas(before["spec"].get("clusters") or ())
        if not added:
            return
        quotas = [
            each
            for each in self._stage.model.objects.all("FederatedResourceQuota")
            if each["metadata"]["namespace"] == before["metadata"]["namespace"]
        ]
        base = self._use(before["metadata"]["namespace"])
        for name, amount in requests.items():
            base[name] = base.get(name, 0) + Quantity.parse(amount).nanos * added
        used = {
            each["metadata"]["name"]: {name: f"{base.get(name, 0) // 1_000_000}m" for name in each["spec"]["overall"]}
            for each in quotas
        }
        for each in quotas:
            for name, amount in used[each["metadata"]["name"]].items():
                limit = each["spec"]["overall"].get(name)
                if limit is not None and Quantity.parse(amount).nanos > Quantity.parse(limit).nanos:
                    raise ApiError(403, "QuotaExceeded", f"{each['metadata']['name']} has no {name} left")
        for each in quotas:
            self._stage.edit(each, status={"overallUsed": used[each["metadata"]["name"]]})

    def _use(self, namespace: str) -> dict[str, int]:
        """Return what the bindings of a namespace use, in billionths."""
        used: dict[str, int] = {}
        for each in self._stage.model.objects.all("ResourceBinding"):
            if each["metadata"]["namespace"] == namespace:
                for name, amount in _requests(each).items():
                    count = _replicas(each["spec"].get("clusters") or ())
                    used[name] = used.get(name, 0) + Quantity.parse(amount).nanos * count
        return used


def _requests(binding: JSON) -> JSON:
    return dict((binding["spec"].get("replicaRequirements") or {}).get("resourceRequest") or {})


def _replicas(clusters: Iterable[JSON]) -> int:
    return sum(each.get("replicas", 0) for each in clusters)
