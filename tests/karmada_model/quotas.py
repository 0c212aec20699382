"""karmada-webhook: it refuses assignments above a FederatedResourceQuota (karmada ``pkg/webhook/resourcebinding``)."""

import json
from collections.abc import Iterable

from karmada_model.stage import Stage
from kube_store import JSON

from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError
from berthmaster.model.meta import Quantity


class QuotaWebhook:
    """It is a fault for ``before``: it refuses a patch of a binding, or writes the new use to the quotas.

    Like Karmada, it looks only at patches that change the use. It refuses each use above the limit, also one that is
    smaller than the use before.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def __call__(self, request: APIRequest) -> None:
        spec = (json.loads(request.body) if request.body else {}).get("spec") or {}
        before = self._stage.api.get(request.path) if request.method == "PATCH" and "clusters" in spec else None
        if before is None:
            return
        requests = (before["spec"].get("replicaRequirements") or {}).get("resourceRequest") or {}
        added = _replicas(spec["clusters"] or ()) - _replicas(before["spec"].get("clusters") or ())
        if not added:
            return
        quotas = [
            each
            for each in self._stage.model.objects.all("FederatedResourceQuota")
            if each["metadata"]["namespace"] == before["metadata"]["namespace"]
        ]
        used = {each["metadata"]["name"]: _used(each, requests, added) for each in quotas}
        for each in quotas:
            for name, amount in used[each["metadata"]["name"]].items():
                limit = each["spec"]["overall"].get(name)
                if limit is not None and Quantity.parse(amount).nanos > Quantity.parse(limit).nanos:
                    raise ApiError(403, "QuotaExceeded", f"{each['metadata']['name']} has no {name} left")
        for each in quotas:
            self._stage.edit(each, status={"overallUsed": used[each["metadata"]["name"]]})


def _replicas(clusters: Iterable[JSON]) -> int:
    return sum(each.get("replicas", 0) for each in clusters)


def _used(quota: JSON, requests: JSON, added: int) -> JSON:
    used = dict(quota.get("status", {}).get("overallUsed") or {})
    for name in quota["spec"]["overall"]:
        more = Quantity.parse(requests[name]).nanos * added if name in requests else 0
        now = Quantity.parse(used[name]).nanos if name in used else 0
        used[name] = f"{(now + more) // 1_000_000}m"
    return used
