"""One binding, one decision: the work behind ``/v1/schedule`` and its batch."""

from typing import Final

import msgspec.structs

from berthmaster.model.binding import Binding
from berthmaster.model.errors import FieldError
from berthmaster.model.validation import binding_errors, cluster_errors
from berthmaster.scheduling.decision import Decision
from berthmaster.scheduling.diagnosis import explain
from berthmaster.scheduling.fleet import fleet_of
from berthmaster.scheduling.karmada.trigger import Trigger, trigger_of
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from extender.protocols.native.wire import Decided, ScheduleRequest
from extender.protocols.problem import Refusal, refuse_invalid
from extender.protocols.services import Meter, Services

PLACED = "Placed"
MAX_SHARED_BYTES: Final = 3 * 2**20
"""The largest request that is decided on the service's fleet: an API server takes no larger object either, and all
others wait meanwhile."""
MAX_EXPLAINED: Final = 2**18
"""For how many pairs of group and cluster a decision is explained: some seconds, and tens of MiB."""


def decide(services: Services, asked: ScheduleRequest, *, size_bytes: int, diagnose: bool) -> Decided:
    """Decide on the request's own clusters, or on the service's.

    Args:
        services: the fleet among them.
        asked: what to decide.
        size_bytes: how large the request was.
        diagnose: explain the decision.

    Raises:
        FieldError: a cluster stands twice.
        Refusal: the binding or a cluster cannot be meant, the service knows no fleet yet, or it would take too long.
    """
    binding = asked.binding
    refuse_invalid(error.below("binding") for error in binding_errors(binding))
    if asked.clusters is not None:
        scheduler = _own_scheduler(services, asked)
        return _decided(services, scheduler, binding, diagnose=diagnose)
    require_synced(services)
    if size_bytes > MAX_SHARED_BYTES:
        problem = f"{size_bytes} bytes are too much for a binding: without clusters of its own a request has at most"
        raise Refusal(413, f"{problem} {MAX_SHARED_BYTES}")
    with services.state.reading() as memory:
        return _decided(services, memory.scheduler, binding, diagnose=diagnose)


def _decided(services: Services, scheduler: Scheduler, binding: Binding, *, diagnose: bool) -> Decided:
    if diagnose:
        require_explicable(binding, len(scheduler.fleet))
    return decide_on(scheduler, binding, diagnose=diagnose, meter=services.meter)


def require_explicable(binding: Binding, clusters: int) -> None:
    """Make sure that a decision on a binding can be explained before others have waited too long.

    Raises:
        Refusal: it cannot.
    """
    placement = binding.spec.placement
    groups = len(placement.cluster_affinities or ()) if placement is not None else 0
    if groups * clusters > MAX_EXPLAINED:
        what = f"the binding has {groups} groups, and there are {clusters} clusters"
        raise Refusal(400, f"{what}: at most {MAX_EXPLAINED} pairs of both are explained; ask with fewer groups")


def decide_on(scheduler: Scheduler, binding: Binding, *, diagnose: bool, meter: Meter | None = None) -> Decided:
    """Decide with a scheduler that nobody else uses meanwhile."""
    request = Request.of(binding)
    decision = scheduler.schedule(request)
    if meter is not None:
        for attempt in decision.attempts:
            for plugin, clusters in scheduler.rejected(request, attempt).items():
                meter.rejected(plugin, clusters)
    decided = _told(binding, trigger_of(binding, scheduler.fleet), decision)
    if not diagnose:
        return decided
    return _with_diagnosis(decided, scheduler, request, decision)


def count(services: Services, protocol: str, decided: Decided) -> None:
    """Count a decision."""
    result = decided.error.value if decided.error is not None else PLACED
    services.meter.decided(protocol, decided.trigger.value, result)


def require_synced(services: Services) -> None:
    """Make sure that there is a fleet.

    Raises:
        Refusal: there is none yet.
    """
    freshness = services.state.freshness
    if not freshness.synced:
        why = f": {freshness.problem}" if freshness.problem else ""
        raise Refusal(503, f"no fleet is known yet{why}", headers=(("Retry-After", "1"),))


def _own_scheduler(services: Services, asked: ScheduleRequest) -> Scheduler:
    clusters = asked.clusters or ()
    refuse_invalid(
        error.below(f"clusters[{index}]") for index, cluster in enumerate(clusters) for error in cluster_errors(cluster)
    )
    try:
        fleet = fleet_of(clusters)
    except FieldError as error:
        raise error.below("clusters") from None
    return Scheduler(fleet, services.state.profile)


def _told(binding: Binding, trigger: Trigger, decision: Decision) -> Decided:
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
    )


def _with_diagnosis(decided: Decided, scheduler: Scheduler, request: Request, decision: Decision) -> Decided:
    return msgspec.structs.replace(decided, diagnosis=explain(scheduler, request, decision))
