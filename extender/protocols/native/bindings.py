"""``/v1/bindings/...``: a binding, the decision on it, what its groups could hold, and why a workload is where it is.

Why-not decides up to some hundred times, and a recorded decision needs the fleet as it was. A process answers one such
question at a time. Others wait for it, within their own time.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from berthmaster.deciding.move_course import ended
from berthmaster.deciding.running import awaited_deletions
from berthmaster.deciding.writes import assigned_group
from berthmaster.kube.watch_options import BINDINGS
from berthmaster.ledger.records import HistoryRow, PastExplanation, RecordId
from berthmaster.manifests.redaction import redacted
from berthmaster.model.binding import Binding, binding_name, holder
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import builtins
from berthmaster.model.errors import ApiError, FieldError, InputError, name_list, shown
from berthmaster.model.meta import object_name, with_spec
from berthmaster.model.move import move_of, move_problem
from berthmaster.model.policy import PolicyReference
from berthmaster.model.readers import Reader, reader_about
from berthmaster.model.unsupported_placement import unsupported_parts
from berthmaster.native_api.policies import ClaimsView
from berthmaster.native_api.why import (
    BindingEvents,
    BindingManifests,
    BindingOutlook,
    BindingOverview,
    FreeAmount,
    Room,
    WhyNotView,
)
from berthmaster.native_api.wire import (
    BindingExplanation,
    BindingView,
    EvictionTaskView,
    InvalidField,
    RequiringBinding,
    ResourceView,
)
from berthmaster.scheduling.diagnosis import MAX_GROUPS, Outlook, outlook
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.peers import Peers
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.detector import metadata_of
from berthmaster.simulation.drift import WorkloadDrift, workload_drift
from berthmaster.simulation.move_notes import move_note
from berthmaster.simulation.not_scheduled import why_not_scheduled
from berthmaster.simulation.report import claim_rows, explanation
from berthmaster.simulation.scheduling_cycle import examine, present, schedule_one
from berthmaster.simulation.why_not import question_of, why_not
from berthmaster.simulation.workload import NO_COMPANIONS, SimulatedWorkload, companions
from berthmaster.simulation.world import World, peers_of
from extender.protocols.native.fleet import amounts
from extender.protocols.native.history import from_ledger, ledger_of
from extender.protocols.native.parameters import invalid, key_of, number, reader_of, text, values
from extender.protocols.native.schedule import require_explicable, require_synced, require_watched
from extender.protocols.native.visible import visible_binding, visible_decision, visible_record
from extender.protocols.problem import RETRY_SOON, Refusal
from extender.protocols.services import Call, Services
from extender.state.workloads import WatchedWorkload

_NO_PLACEMENT = "the binding has no placement: no scheduler decides about it"


Key = tuple[str, str]
"""The namespace and the name of a binding; an empty namespace for a cluster-scoped one."""
PARAMETERS: Final = {
    "group": text("Explain each cluster in this group; empty for a placement without groups."),
    "clusters": number("The most clusters of each stage of a group; the others are counted. All by default.", 5000),
}
_LEFT_OUT: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT)
"""A placement with very many groups is not explained, and an installation may lack what a part needs."""


def require_binding(services: Services, key: Key) -> WatchedWorkload:
    """Return a binding of the service with its workload."""
    require_watched(services, BINDINGS, subject="the bindings of the control plane are")
    found = services.state.workload(key)
    if found is None:
        raise Refusal(404, f"there is no binding {shown(object_name(*key))}")
    return found


def _binding_of(found: WatchedWorkload) -> Binding:
    """Return the binding as the service knows it."""
    binding = found.stored or found.workload.binding
    if binding is None:
        raise Refusal(404, f"{found.workload} has no binding")
    return binding


def explained(services: Services, key: Key, most: int | None = None) -> BindingExplanation:
    """Return what the scheduler would decide now on a binding, and why; of ``most`` clusters in each list."""
    state, found = services.state, require_binding(services, key)
    workload, now = found.workload, services.clock.now()
    with state.reading() as cache:
        if workload.binding is not None:
            require_explicable(workload.binding, len(cache.fleet))
        outcome = examine(cache.scheduler, workload, now, state.assuming(World({}, ()), now), most=most)
        cache.restore_peers(workload)
    if found.related is not None:
        followed = companions([outcome.workload, *found.related]).get(0, NO_COMPANIONS)
        outcome = replace(outcome, companions=followed)
    answer = explanation(outcome, present(World({}, [workload]))[0])
    gaps = state.gaps(reader_about(key[0]))
    return BindingExplanation(**msgspec.structs.asdict(answer), gaps=gaps, staleness=state.staleness)


def described(services: Services, key: Key) -> BindingView:
    """Return a binding as the service knows it, without a decision."""
    found = require_binding(services, key)
    workload, binding = found.workload, _binding_of(found)
    spec, status, resource = binding.spec, binding.status, binding.spec.resource
    placement = spec.placement
    groups = placement.cluster_affinities if placement is not None else None
    return BindingView(
        kind=binding.kind,
        namespace=binding.metadata.namespace,
        name=binding.metadata.name,
        present=workload.present,
        deleting=binding.metadata.deletion_timestamp is not None,
        resource=ResourceView(resource.api_version, resource.kind, resource.namespace, resource.name),
        policy=str(workload.held_by) if workload.held_by is not None else None,
        scheduler=binding.scheduler if placement is not None else None,
        suspended=binding.suspended,
        replicas=spec.replicas,
        groups=None if groups is None else [each.affinity_name for each in groups],
        observed_group=assigned_group(binding) or None,
        clusters=binding.assignment,
        eviction_tasks=[
            msgspec.convert(each, EvictionTaskView, from_attributes=True) for each in spec.graceful_eviction_tasks
        ],
        waits_for_deletion=awaited_deletions(binding),
        required_by=[
            RequiringBinding(each.namespace, each.name, {target.name: target.replicas for target in each.clusters})
            for each in spec.required_by
        ],
        conditions=list(status.conditions),
        last_scheduled_time=status.last_scheduled_time,
        notes=list(workload.notes),
        gaps=services.state.gaps(reader_about(key[0])),
        staleness=services.state.staleness,
        requests=spec.replica_requirements.resource_request if spec.replica_requirements is not None else {},
    )


def manifests_of(services: Services, key: Key, reader: Reader) -> BindingManifests:
    """Return a binding and its workload as manifests, without what may be confidential or the reader may not see."""
    version, found = services.state.version, require_binding(services, key)
    workload, binding = found.workload, _binding_of(found)
    seen = tuple(each for each in binding.spec.required_by if reader.sees(each.namespace))
    shown = builtins(with_spec(binding, required_by=seen))
    document = {"apiVersion": binding.api_version, "kind": binding.kind, **shown}
    template = None if workload.template is None else redacted(workload.manifest)
    return BindingManifests(redacted(document), template, version)


def events_of(services: Services, key: Key) -> BindingEvents:
    """Return the events of a binding that the API server has now."""
    read, found = services.state.events, require_binding(services, key)
    if read is None:
        raise Refusal(409, "the service watches no control plane, which has the events")
    try:
        return BindingEvents(*read(_binding_of(found)))
    except ApiError as error:
        if error.forbidden:
            raise Refusal(409, "the service may not list events of events.k8s.io") from None
        raise Refusal(503, f"the API server does not list the events: {error}", headers=RETRY_SOON) from None


def binding_outlook(services: Services, key: Key, group: str | None, most: int | None = None) -> BindingOutlook:
    """Return what each group of a binding could hold, and the state of its move."""
    state, found = services.state, require_binding(services, key)
    binding = found.workload.binding
    if binding is None:
        raise Refusal(404, f"{found.workload} has no binding")
    index = _index_of(binding, group)
    with state.reading() as cache:
        if index is not None:
            require_explicable(binding, len(cache.fleet))
        base = ended(cache.scheduler, binding, services.clock.now(), state.own_scheduler)
        looked = _looked(cache.scheduler, base, index, most)
    stored = found.stored or binding
    notes = [each for each in (looked.problem, move_problem(stored)) if each]
    move = move_of(stored)
    return BindingOutlook(
        looked.groups,
        looked.diagnosis,
        move,
        move_note(stored) if move is not None else "",
        notes,
        state.gaps(reader_about(key[0])),
        state.staleness,
    )


def room_of(services: Services, view: BindingView, tried: Collection[str | None]) -> Room | None:
    """Return the most that one cluster of the ``tried`` groups has free, if replicas have no place."""
    state, binding = services.state, require_binding(services, (view.namespace, view.name)).workload.binding
    if binding is None or not view.requests or (view.clusters and sum(view.clusters.values()) >= view.replicas):
        return None
    with state.reading() as cache:
        scheduler, fleet = cache.scheduler, cache.fleet
        request = Request.of(ended(scheduler, binding, services.clock.now(), state.own_scheduler))
        groups = [each for each in scheduler.compile(request.placement).groups if each.name in tried] if tried else []
        rows = {row for group in groups for row in scheduler.fitting(request, group).tolist()}
        found = [fleet.clusters[row] for row in rows] if rows else fleet.clusters
        ready = [each for each in found if each is not None and each.ready]
    free: dict[str, FreeAmount] = {}
    with state.placed() as index:
        for cluster in ready:
            use = index.use(cluster.name) if state.observed is not None else None
            for name, each in amounts(cluster, use, view.requests).items():
                if each.used is None:
                    continue
                one = FreeAmount(cluster.name, each.allocatable - each.used - (each.assumed or 0))
                known = free.get(name)
                if known is None or (one.amount, one.cluster) > (known.amount, known.cluster):
                    free[name] = one
    return Room(bool(rows), free)


def _looked(scheduler: Scheduler, base: Binding, index: int | None, most: int | None) -> Outlook:
    if base.spec.placement is None:
        return Outlook([], problem=_NO_PLACEMENT)
    if unknown := unsupported_parts(base.spec.placement):
        return Outlook([], problem=f"groups are not tried: a part of the placement is not known: {'; '.join(unknown)}")
    return outlook(scheduler, Request.of(base), index, most)


def _index_of(binding: Binding, group: str | None) -> int | None:
    if group is None:
        return None
    placement = binding.spec.placement
    terms = placement.cluster_affinities if placement is not None else None
    names = [""] if terms is None else [each.affinity_name for each in terms[:MAX_GROUPS]]
    if group in names:
        return names.index(group)
    known = f"; known are {name_list(names)}" if terms else ""
    problem = f"there is no group {shown(group)}{known}"
    raise Refusal(404, f"query parameter group: {problem}", errors=[InvalidField("?group", problem)])


T = TypeVar("T")


def claims_of(services: Services, key: tuple[str, str]) -> ClaimsView:
    """Return which policy holds the workload of a binding, and which others match it."""
    state, version = services.state, services.state.version
    workload = require_binding(services, key).workload
    return ClaimsView(
        resource=str(workload),
        holder=str(workload.held_by) if workload.held_by is not None else None,
        why=why_held(workload),
        claims=claim_rows(workload),
        gaps=state.gaps(reader_about(key[0])),
        version=version,
        staleness=state.staleness,
    )


def _drift(services: Services, key: Key) -> WorkloadDrift:
    workload = require_binding(services, key).workload
    now, state = services.clock.now(), services.state
    ineligible = why_not_scheduled(workload, state.assuming(World({}, ()), now).schedulers)
    if ineligible is not None:
        raise Refusal(409, str(ineligible))
    with state.reading() as cache:
        return workload_drift(cache.scheduler, workload, now, own=state.own_scheduler)


def binding_overview(services: Services, call: Call) -> BindingOverview:
    """Return a binding, the decision on it, what each of its groups could hold, who claims it, and its drift."""
    version, key, reader = services.state.version, key_of(call), reader_of(call)
    most = values(PARAMETERS, call.query).get("clusters")
    binding = described(services, key)
    missing: dict[str, str] = {}

    def part(title: str, ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except Refusal as refusal:
            if refusal.status not in _LEFT_OUT:
                raise
            missing[title] = refusal.detail
            return None

    decision = part("decision", lambda: visible_decision(explained(services, key, most), reader))
    outlook = part("outlook", lambda: binding_outlook(services, key, call.query.get("group"), most))
    claims = part("claims", lambda: claims_of(services, key))
    drifts = part("drift", lambda: _drift(services, key))
    diagnosis = None if decision is None else decision.diagnosis
    room = room_of(services, binding, [] if diagnosis is None else [each.group for each in diagnosis.groups])
    return BindingOverview(visible_binding(binding, reader), decision, outlook, claims, missing, version, room, drifts)


class Investigator:
    """Answers questions that decide many times, one at a time."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._scheduler: Scheduler | None = None
        self._clusters: Mapping[str, Cluster] = {}

    def why_not(self, services: Services, call: Call) -> WhyNotView:
        """Return the smallest change under which a cluster would get a workload, now or at a recorded decision."""
        cluster, record = call.query.get("cluster", ""), call.query.get("record")
        if not cluster:
            raise invalid("cluster", "the name of a cluster is required")
        if record is not None:
            return self._why_not_then(services, call, record, cluster)
        require_synced(services)
        return self._why_not_now(services, call, cluster)

    def explained(self, services: Services, call: Call) -> PastExplanation:
        ledger, wanted = ledger_of(services), _record_id(call.path_values["record"])
        with self._alone(services, call):
            found = from_ledger(services, lambda: ledger.explain(wanted, difference=True))
        _require_same(found.record, key_of(call))
        return visible_record(found, reader_of(call))

    def _why_not_now(self, services: Services, call: Call, cluster: str) -> WhyNotView:
        key, state, version = key_of(call), services.state, services.state.version
        workload, check = require_binding(services, key).workload, partial(services.give_way, call)
        with state.reading() as cache:
            clusters = cache.world.clusters
        if cluster not in clusters:
            raise Refusal(404, f"there is no cluster {shown(cluster)}")
        binding = workload.binding
        if binding is not None:
            require_explicable(binding, len(clusters))
        peers = Peers()
        if binding is not None and binding.spec.workload_affinity_groups is not None:
            peers = peers_of(state.world(check))
        with self._alone(services, call):
            scheduler, now = self._scheduler_of(clusters, state.profile), services.clock.now()
            world = state.assuming(World(clusters, ()), now)
            scheduler.peers = peers
            try:
                question = question_of(scheduler, world, workload, schedule_one(scheduler, workload, now, world), now)
            except InputError as error:
                raise Refusal(409, str(error)) from None
            answer = why_not(question, cluster, check)
        gaps = state.gaps(reader_about(key[0]))
        return WhyNotView(**msgspec.structs.asdict(answer), gaps=gaps, version=version, staleness=state.staleness)

    def _why_not_then(self, services: Services, call: Call, record: str, cluster: str) -> WhyNotView:
        ledger, wanted = ledger_of(services), _record_id(record)
        with self._alone(services, call):
            _require_same(from_ledger(services, lambda: ledger.explain(wanted)).record, key_of(call))
            answer = from_ledger(services, lambda: ledger.why_not(wanted, cluster))
        return WhyNotView(**msgspec.structs.asdict(answer), record=str(wanted))

    def _scheduler_of(self, clusters: Mapping[str, Cluster], profile: Profile) -> Scheduler:
        """Return a scheduler with a fleet that no other request uses. Only clusters that differ are updated."""
        scheduler = self._scheduler = self._scheduler or Scheduler(Fleet(), profile)
        for name in self._clusters.keys() - clusters.keys():
            scheduler.fleet.remove(name)
        for name, cluster in clusters.items():
            if self._clusters.get(name) is not cluster:
                scheduler.fleet.apply(cluster)
        self._clusters = clusters
        return scheduler

    @contextmanager
    def _alone(self, services: Services, call: Call) -> Iterator[None]:
        with services.one_at_a_time(self._asking, call, "other questions"):
            services.check_deadline(call)
            yield


def _record_id(text: str) -> RecordId:
    try:
        return RecordId.parse(text)
    except InputError as error:
        raise Refusal(404, str(error)) from None


def _require_same(record: HistoryRow, key: tuple[str, str]) -> None:
    """Refuse a record of another binding. The reader may not be allowed to see which one that is."""
    if (record.namespace, binding_name(record.resource_kind, record.name)) != key:
        raise Refusal(404, f"record {record.id} is about another binding")


def why_held(workload: SimulatedWorkload) -> str:
    """Return why the policy that holds a workload holds it, or why none does. One sentence."""
    held_by, recorded = workload.held_by, _recorded(workload)
    if held_by is None:
        return _why_free(workload)
    if recorded == held_by:
        lasts = "its labels and annotations name this policy, and a claim lasts until the policy releases the workload"
        if workload.claim is None and workload.template is not None:
            return f"{lasts}; the policy is not among the known ones"
        return f"{lasts}, or until another policy takes it by preemption"
    if recorded is not None:
        return f"the record of {recorded} is not in effect, and this policy is the next one"
    return "no claim is recorded yet, and this policy ranks first among those that match"


def _why_free(workload: SimulatedWorkload) -> str:
    if workload.unscheduled is not None:
        return workload.unscheduled.message
    if workload.template is None:
        return "its binding records no policy, and its template is not known"
    return "no policy selects it"


def _recorded(workload: SimulatedWorkload) -> PolicyReference | None:
    found = None
    if workload.template is not None:
        try:
            found = holder(metadata_of(workload.manifest))
        except FieldError:
            found = None
    if found is None and workload.binding is not None:
        found = holder(workload.binding.metadata)
    return found
