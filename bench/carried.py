"""Time requests that contain all clusters, and the share of decoding: part of ``make bench-extender``.

*plain decoding* only decodes the same bytes into dicts with msgspec, for comparison.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import kube_scheduler
import msgspec
from served import Server, measure, post
from timing import median_ms
from workloads import Scenario

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.native_api.wire import ScheduleRequest
from berthmaster.scheduling.fleet import fleet_of
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.scheduler import Scheduler
from extender.protocols.kube_scheduler.handlers import Extender, KubeSchedulerOptions
from extender.protocols.kubeadmiral.plugin import select_clusters
from extender.protocols.kubeadmiral.wire import SelectRequest
from extender.protocols.native.schedule import decide_on
from extender.protocols.services import Call

_ROUNDS = 25


@dataclass(frozen=True)
class Carrying:
    """A request, and its time without HTTP.

    Attributes:
        what: its name in the output.
        path, body: the request.
        answer_ms: the time from the bytes to the answer.
        decoding_ms: the time of decoding in it.
    """

    what: str
    path: str
    body: bytes
    answer_ms: float
    decoding_ms: float


def native(workload: Scenario) -> Carrying:
    """``POST /v1/schedule`` with the clusters of a workload."""
    body = encode_json(ScheduleRequest(workload.bindings[0], workload.clusters))

    def answer() -> None:
        request = decode_json(ScheduleRequest, body)
        scheduler = Scheduler(fleet_of(request.clusters or ()), karmada_profile())
        decide_on(scheduler, request.binding, datetime.now(UTC), diagnose=False)

    decoding_ms = median_ms(lambda: decode_json(ScheduleRequest, body), _ROUNDS)
    return Carrying("POST /v1/schedule", "/v1/schedule", body, median_ms(answer, _ROUNDS), decoding_ms)


def select(unit: dict[str, Any], clusters: Sequence[dict[str, Any]]) -> Carrying:
    """A KubeAdmiral select of all clusters."""
    scores = [{"cluster": cluster, "score": index % 100} for index, cluster in enumerate(clusters)]
    body = msgspec.json.encode({"schedulingUnit": unit, "clusterScores": scores})
    answer_ms = median_ms(lambda: select_clusters(body), _ROUNDS)
    decoding_ms = median_ms(lambda: decode_json(SelectRequest, body), _ROUNDS)
    return Carrying("KubeAdmiral select", "/kubeadmiral/v1alpha1/select", body, answer_ms, decoding_ms)


def nodes(verb: str, size: int) -> Carrying:
    """A request of kube-scheduler with whole nodes of real size, each with 50 images."""
    items = [kube_scheduler.node(index, kube_scheduler.IMAGES_OF_A_KUBELET) for index in range(size)]
    body = msgspec.json.encode({"Pod": kube_scheduler.pod(), "Nodes": {"items": items}, "NodeNames": None})
    metrics = kube_scheduler.Stages()
    known, extender = kube_scheduler.services(items, metrics), Extender(KubeSchedulerOptions())
    call = Call("bench", time.monotonic() + 3600, body)
    answer_ms = median_ms(lambda: getattr(extender, verb)(known, call), _ROUNDS)
    decoding_ms = metrics.decoding_s * 1e3 / (_ROUNDS + 1)
    return Carrying(f"kube-scheduler {verb}", f"/kube-scheduler/{verb}", body, answer_ms, decoding_ms)


def figures(server: Server, requests: Sequence[Carrying]) -> Iterator[str]:
    """Yield the lines of a table: the time over one connection, and without HTTP."""
    columns = f"{'p50 ms':>8} {'p99 ms':>8} {'no HTTP':>8} {'decoding':>9} {'plain':>7}"
    yield f"{'with its own clusters':>36} {'MB':>5} {columns}"
    for each in requests:
        found = measure(server, [post(each.path, each.body)], count=30, connections=1, seconds=0.5)
        plain_ms = median_ms(lambda body=each.body: msgspec.json.decode(body), _ROUNDS)
        share = each.decoding_ms / each.answer_ms
        yield (
            f"{each.what:>36} {len(each.body) / 1e6:5.1f} {found.p50:8.1f} {found.p99:8.1f} {each.answer_ms:8.1f} "
            f"{share:9.0%} {plain_ms:7.1f}"
        )
