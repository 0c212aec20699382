"""``POST /kubeadmiral/v1alpha1/schedule``: what KubeAdmiral's scheduler decides on the objects of a request.

KubeAdmiral itself never calls this path. It answers people and programs, as ``berthmaster simulate`` does.
"""

import threading
from functools import partial
from typing import Annotated, Any, Final

import msgspec

from berthmaster.manifests import Document, Manifests, manifests_of, objects_in
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import FieldError, ManifestError
from berthmaster.simulation.kubeadmiral.federation import FederationRow, federation_of, federation_row, run_federation
from extender.protocols.kubeadmiral.groups_plugin import webhooks_of
from extender.protocols.problem import RETRY_SOON, Refusal
from extender.protocols.route import JSON, Reply, Route
from extender.protocols.services import Call, Services

_MAX_OBJECTS: Final = 10_000
_MAX_BYTES: Final = 3 * 2**20
"""The largest body. Reading it takes about a quarter of a second."""


class FederationRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Objects of a KubeAdmiral federation to schedule, or lists of them."""

    objects: Annotated[list[dict[str, Any]], msgspec.Meta(max_length=_MAX_OBJECTS)]
    duplicate_limits: bool = False


class FederationAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The result for each workload, in the order of the request."""

    workloads: list[FederationRow]


def federation_route(protocol: str, path: str) -> Route:
    """Return the route. It answers one request at a time; others get status 429 meanwhile."""
    busy = threading.Lock()

    def handle(services: Services, call: Call) -> Reply:
        if len(call.body) > _MAX_BYTES:
            raise Refusal(413, f"the request has {len(call.body)} bytes; at most {_MAX_BYTES} are read")
        if not busy.acquire(blocking=False):
            raise Refusal(429, "another request of this path is running", headers=RETRY_SOON)
        try:
            return Reply(encode_json(_answer(services, call)))
        finally:
            busy.release()

    return Route("POST", path, handle, protocol, accepts=(JSON,), query={}, brings_fleet=True)


def _answer(services: Services, call: Call) -> FederationAnswer:
    request = decode_json(FederationRequest, call.body)
    check = partial(services.check_deadline, call)
    try:
        manifests = _manifests(request)
        federation = federation_of(
            manifests, webhooks=webhooks_of(manifests), duplicate_limits=request.duplicate_limits
        )
    except ManifestError as error:
        number = f"[{error.document - 1}]" if error.document is not None else ""
        path = f".{error.path}" if error.path else ""
        raise FieldError(f"objects{number}{path}", error.problem) from None
    _, results = run_federation(federation, services.clock.now(), check=check)
    return FederationAnswer([federation_row(each) for each in results])


def _manifests(request: FederationRequest) -> Manifests:
    documents: list[Document] = []
    for number, raw in enumerate(request.objects, start=1):
        documents += objects_in("objects", number, raw)
    manifests = manifests_of(documents, "objects")
    if not manifests.federation.clusters:
        raise FieldError("objects", "has no FederatedCluster; accepted are the objects of a KubeAdmiral federation")
    return manifests
