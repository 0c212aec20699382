"""Why a workload is where it is, and not elsewhere: claims, overview, why-not, and recorded decisions of a binding.

Why-not decides up to some hundred times, and a recorded decision needs the fleet as it was. A process answers one such
question at a time. Others wait for it, within their own time.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec.structs

from berthmaster.ledger.records import HistoryRow, PastExplanation, RecordId
from berthmaster.model.binding import binding_name, holder
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import FieldError, InputError, shown
from berthmaster.model.gaps import about
from berthmaster.model.policy import PolicyReference
from berthmaster.native_api.why import BindingOverview, ClaimsView, WhyNotView
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Peers
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.detector import metadata_of
from berthmaster.simulation.report import claim_rows
from berthmaster.simulation.run import examine
from berthmaster.simulation.why_not import request_of, why_not
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import peers_of
from extender.protocols.native.bindings import (
    PARAMETERS,
    binding_outlook,
    described,
    explained,
    require_binding,
    room_of,
)
from extender.protocols.native.drift import drift_of_binding
from extender.protocols.native.history import from_ledger, ledger_of
from extender.protocols.native.parameters import invalid, key_of, reader_of, values
from extender.protocols.native.schedule import require_explicable, require_synced
from extender.protocols.native.visible import visible_binding, visible_decision, visible_record
from extender.protocols.problem import Refusal
from extender.protocols.services import Call, Services

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
        gaps=state.gaps(about(key[0])),
        version=version,
        staleness=state.staleness,
    )


_LEFT_OUT: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT)
"""A placement with very many groups is not explained, and an installation may lack what a part needs."""


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
    drifts = part("drift", lambda: drift_of_binding(services, key))
    diagnosis = None if decision is None else decision.diagnosis
    room = room_of(services, binding, [] if diagnosis is None else [each.group for each in diagnosis.groups])
    return BindingOverview(visible_binding(binding, reader), decision, outlook, claims, missing, version, room, drifts)


class Investigator:
    """Answers questions that decide many times, one at a time."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._fleet: _OwnFleet | None = None

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
            self._fleet = self._fleet or _OwnFleet(state.profile)
            scheduler = self._fleet.of(clusters)
            scheduler.peers = peers
            try:
                result = examine(scheduler, workload, services.clock.now())
                request = request_of(result)
            except InputError as error:
                raise Refusal(409, str(error)) from None
            answer = why_not(scheduler, request, cluster, check, due=result.trigger is not Trigger.NONE)
        gaps = state.gaps(about(key[0]))
        return WhyNotView(**msgspec.structs.asdict(answer), gaps=gaps, version=version, staleness=state.staleness)

    def _why_not_then(self, services: Services, call: Call, record: str, cluster: str) -> WhyNotView:
        ledger, wanted = ledger_of(services), _record_id(record)
        with self._alone(services, call):
            _require_same(from_ledger(services, lambda: ledger.explain(wanted)).record, key_of(call))
            answer = from_ledger(services, lambda: ledger.why_not(wanted, cluster))
        return WhyNotView(**msgspec.structs.asdict(answer), record=str(wanted))

    @contextmanager
    def _alone(self, services: Services, call: Call) -> Iterator[None]:
        with services.one_at_a_time(self._asking, call, "other questions"):
            services.check_deadline(call)
            yield


class _OwnFleet:
    """A scheduler with a fleet that no other request uses. Only clusters that differ are updated."""

    def __init__(self, profile: Profile) -> None:
        self._scheduler = Scheduler(Fleet(), profile)
        self._clusters: Mapping[str, Cluster] = {}

    def of(self, clusters: Mapping[str, Cluster]) -> Scheduler:
        fleet = self._scheduler.fleet
        for name in self._clusters.keys() - clusters.keys():
            fleet.remove(name)
        for name, cluster in clusters.items():
            if self._clusters.get(name) is not cluster:
                fleet.apply(cluster)
        self._clusters = clusters
        return self._scheduler


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
