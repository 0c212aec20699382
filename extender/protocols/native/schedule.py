"""``/v1/schedule``: decisions on bindings."""

import logging
from datetime import datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from berthmaster.deciding.move_course import ended
from berthmaster.deciding.rules import OWN, rules_of, trigger_by
from berthmaster.kube.watch_options import CLUSTER_KINDS, CLUSTERS, WatchOptions
from berthmaster.model.binding import Binding
from berthmaster.model.decode import NOT_JSON, decode_json, encode_json, read_json
from berthmaster.model.errors import FieldError
from berthmaster.model.placement_limits import OPTION, placement_excess
from berthmaster.model.unsupported_placement import unknown_placement_fields
from berthmaster.model.validation import binding_errors, cluster_errors
from berthmaster.native_api.wire import ABOUT_BLANK, NOT_READY, Decided, ScheduleRequest
from berthmaster.runtime.logs import fields
from berthmaster.scheduling.diagnosis import explain
from berthmaster.scheduling.fleet import fleet_of
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.scheduling.steps import Work
from extender.protocols.cheap_requests import is_light
from extender.protocols.native.parameters import flag, values
from extender.protocols.problem import RETRY_SOON, Refusal, refuse_invalid
from extender.protocols.route import Reply
from extender.protocols.services import Call, Services
from extender.state.state import NO_SOURCE, State

if TYPE_CHECKING:
    from extender.metrics import ServiceMetrics

R = TypeVar("R", bound=ScheduleRequest)

PROTOCOL: Final = "native"
PARAMETERS: Final = {"explain": flag("Add the diagnosis: why each group and cluster was rejected, or its score.")}
PLACED: Final = "Placed"
MAX_SHARED_BYTES: Final = 3 * 2**20
"""The largest request that uses the fleet of the service. All other requests wait for it. Objects in an API server are
not larger."""
MAX_EXPLAINED: Final = 2**15
"""The most pairs of group and cluster in a diagnosis, which take about a quarter of a second."""
_MAX_KEPT: Final = 1024
_MAX_KEPT_BYTES: Final = 2**13
"""How many placements, and of which size, are remembered with their unknown fields."""


class _PlacementOfSpec(msgspec.Struct, frozen=True, gc=False):
    placement: msgspec.Raw = msgspec.Raw(b"null")


class _PlacementOfBinding(msgspec.Struct, frozen=True, gc=False):
    spec: _PlacementOfSpec | None = None


class _PlacementOfRequest(msgspec.Struct, frozen=True, gc=False):
    binding: _PlacementOfBinding


_OUTLINE: Final = msgspec.json.Decoder(_PlacementOfRequest)


class _Clusters(msgspec.Struct):
    clusters: msgspec.Raw = msgspec.Raw()


_CLUSTERS: Final = msgspec.json.Decoder(_Clusters)


def schedule_one(services: Services, call: Call) -> Reply:
    """Answer a request of ``/v1/schedule``."""
    diagnose = values(PARAMETERS, call.query)["explain"]
    clock, metrics = services.clock, services.metrics
    begun_s = clock.monotonic_s()
    request = _decoded(services, ScheduleRequest, call.body)
    decoded_s = clock.monotonic_s()
    decided = decide_request(services, request, call, size_bytes=len(call.body), diagnose=diagnose)
    done_s = clock.monotonic_s()
    body = encode_json(decided)
    stages = {"decode": decoded_s - begun_s, "decide": done_s - decoded_s, "encode": clock.monotonic_s() - done_s}
    for stage, seconds in stages.items():
        metrics.took(PROTOCOL, stage, seconds)
    if services.log.isEnabledFor(logging.DEBUG):
        milliseconds = {f"{stage}_ms": round(seconds * 1e3, 3) for stage, seconds in stages.items()}
        services.log.debug("stages", extra=fields(**milliseconds, request_id=call.request_id))
    _record(services, call, "schedule", begun_s, decided)
    return Reply(body)


def is_cheap(body: bytes) -> bool:
    """Return whether a request is light and brings no clusters."""
    if not is_light(body):
        return False
    try:
        clusters = bytes(_CLUSTERS.decode(body).clusters)
    except NOT_JSON:
        return True  # the error is cheap
    return clusters in (b"", b"null")


def decide_request(
    services: Services, request: ScheduleRequest, call: Call, *, size_bytes: int, diagnose: bool
) -> Decided:
    """Decide on the request's clusters, or on the fleet of the service.

    Args:
        call: its deadline ends the decision between two groups.

    Raises:
        FieldError: two clusters have the same name.
        Refusal: the binding or a cluster is invalid or too large, no fleet is known yet, or the decision would take too
            long.
    """
    binding, limits = request.binding, services.state.profile.limits
    refuse_invalid(error.below("binding") for error in binding_errors(binding))
    excess = placement_excess(binding.spec.placement, limits) if binding.spec.placement is not None else ()
    refuse_invalid(error.below("binding.spec.placement") for error in excess)
    work = Work(limits.steps, partial(services.check_deadline, call))

    def answer(scheduler: Scheduler) -> Decided:
        if diagnose:
            require_explicable(binding, len(scheduler.fleet))
        own, now = services.state.own_scheduler, services.clock.now()
        return decide_on(scheduler, binding, now, work, diagnose=diagnose, own=own, metrics=services.metrics)

    if request.clusters is not None:
        return answer(_own_scheduler(services, request))
    require_synced(services)
    if size_bytes > MAX_SHARED_BYTES:
        limit = f"without clusters a request has at most {MAX_SHARED_BYTES} bytes"
        raise Refusal(413, f"the request has {size_bytes} bytes; {limit}")
    with services.state.reading() as cache:
        return answer(cache.scheduler)


def decide_on(
    scheduler: Scheduler,
    binding: Binding,
    now: datetime,
    work: Work | None = None,
    *,
    diagnose: bool,
    own: str = OWN,
    metrics: "ServiceMetrics | None" = None,
) -> Decided:
    """Decide with a scheduler that no other thread uses meanwhile.

    ``own``: the name that Berthmaster's scheduler serves. The bindings of others follow Karmada's rules.
    """
    rules = rules_of(binding, own)
    base = ended(scheduler, binding, now, own)
    trigger = trigger_by(rules, base, scheduler.fleet)
    request = Request.of(base)
    decision = scheduler.schedule(request, work)
    if metrics is not None:
        for attempt in decision.attempts:
            for plugin, clusters in scheduler.rejected(request, attempt).items():
                metrics.rejected(plugin, clusters)
    failure = decision.failure
    return Decided(
        namespace=binding.metadata.namespace or binding.spec.resource.namespace,
        name=binding.metadata.name,
        trigger=trigger,
        mode=decision.mode,
        group=decision.group,
        clusters=decision.assignment,
        error=failure.kind if failure is not None else None,
        message=failure.message if failure is not None else None,
        clears_assignment=decision.clears_assignment,
        diagnosis=explain(scheduler, request, decision) if diagnose else msgspec.UNSET,
    )


def _decoded(services: Services, kind: type[R], body: bytes) -> R:
    """Decode a request, unless its groups alone exceed the limits: decoding megabytes of them takes a second.

    Raises:
        Refusal: there are too many groups, or the placement has an unknown field. If it were ignored, the answer could
            name clusters that the field rules out.
    """
    limits, found = services.state.profile.limits, body.count(b'"affinityName"')
    most = limits.groups * (1 + limits.overflow_affinities)
    if found > most:
        accepted = f"at most {most:,} are read; use fewer, or raise groups in {OPTION}"
        path = "binding.spec.placement.clusterAffinities"
        raise Refusal(400, f"{path}: {found:,} groups and overflow affinities; {accepted}")
    request = decode_json(kind, body)
    spec = _OUTLINE.decode(body).binding.spec
    if spec is not None:
        text = bytes(spec.placement)
        errors = _known_errors(text) if len(text) <= _MAX_KEPT_BYTES else _placement_errors(text)
        refuse_invalid(errors)
    return request


def _placement_errors(text: bytes) -> tuple[FieldError, ...]:
    return tuple(error.below("binding.spec.placement") for error in unknown_placement_fields(read_json(text)))


_known_errors = lru_cache(_MAX_KEPT)(_placement_errors)  # many bindings of a policy have one placement


def require_explicable(binding: Binding, clusters: int) -> None:
    """Refuse a diagnosis that would take too long."""
    placement = binding.spec.placement
    groups = max(1, len(placement.cluster_affinities or ()) if placement is not None else 0)
    if groups * clusters > MAX_EXPLAINED:
        size = f"the binding has {groups} groups, and there are {clusters} clusters"
        raise Refusal(400, f"{size}; a diagnosis has at most {MAX_EXPLAINED} pairs of both, use fewer groups")


def require_synced(services: Services) -> None:
    """Refuse a request while no fleet is known: with status 409 if there will be none, with 503 before the first."""
    if not services.state.has_source:
        raise Refusal(409, NO_SOURCE, kind=NOT_READY)
    staleness = services.state.staleness
    if not staleness.synced:
        why = f": {staleness.problem}" if staleness.problem else ""
        raise Refusal(503, f"no fleet is known yet{why}", headers=RETRY_SOON, kind=kind_of_staleness(services.state))


def kind_of_staleness(state: State) -> str:
    """Return the type of a refusal because of a stale state.

    ``NOT_READY`` means that the service cannot reach its source. What users can cause has another type: a gate that
    lets changes pass while the service cannot be reached must refuse them.
    """
    return ABOUT_BLANK if state.stale_by_objects else NOT_READY


def require_watched(services: Services, *needed: str, subject: str) -> None:
    """Refuse a request that needs objects which are not watched. ``subject`` begins the problem: what they are."""
    watched = services.state.watched
    if watched is None or set(needed) <= set(watched):
        return
    wanted = WatchOptions((CLUSTERS, *needed)).all_kinds
    others = [kind for kind in watched if kind in CLUSTER_KINDS and kind != CLUSTERS]
    where = f" on Karmada's API server instead of {others[0]}" if others else ""
    raise Refusal(
        409,
        f"{subject} not known: the service watches {', '.join(watched)}; start it with --watch "
        f"{','.join(wanted)}{where} (chart: extender.watch)",
        kind=NOT_READY,
    )


def _own_scheduler(services: Services, request: ScheduleRequest) -> Scheduler:
    clusters = request.clusters or ()
    refuse_invalid(
        error.below(f"clusters[{index}]") for index, cluster in enumerate(clusters) for error in cluster_errors(cluster)
    )
    try:
        fleet = fleet_of(clusters)
    except FieldError as error:
        raise error.below("clusters") from None
    return Scheduler(fleet, services.state.profile)


def _record(services: Services, call: Call, verb: str, begun_s: float, decided: Decided) -> None:
    result = decided.error.value if decided.error is not None else PLACED
    services.metrics.decided(PROTOCOL, decided.trigger.value, result)
    services.decisions.write(
        call, PROTOCOL, verb, begun_s,
        lambda: {
            "workload": f"{decided.namespace}/{decided.name}", "trigger": decided.trigger.value, "result": result,
            "group": decided.group or "", "assignment": decided.clusters, "error": decided.message or "",
        },
    )  # fmt: skip
