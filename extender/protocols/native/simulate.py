"""``/v1/simulate``: the effect of changes on the fleet of the service."""

import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import asdict, replace

from berthmaster.kube.kinds import BINDINGS, WORKLOADS
from berthmaster.model.cluster import EFFECTS
from berthmaster.model.decode import encode_json
from berthmaster.model.errors import FieldError, InputError, shown
from berthmaster.model.gaps import ANY_READER
from berthmaster.model.meta import with_spec
from berthmaster.model.policy import Policy, PolicyReference, defaulted
from berthmaster.model.selector import is_label_key, is_label_value
from berthmaster.model.validation import cluster_errors, policy_errors, update_errors
from berthmaster.native_api import what_if
from berthmaster.native_api.what_if import Change, PolicyChange, SimulateRequest, simulate_answer
from berthmaster.runtime.forked import Forked
from berthmaster.simulation.change_set import ChangeSet
from berthmaster.simulation.planner import planned_fleet
from berthmaster.simulation.workload import ResourceName
from berthmaster.simulation.world import Change as SimulatedChange
from berthmaster.simulation.world import World
from extender.protocols.native.schedule import require_synced, require_watched
from extender.protocols.problem import RETRY_SOON, Refusal, refuse_invalid
from extender.protocols.services import Call, Services


class Simulator:
    """Simulates one request at a time. Other requests get status 429 meanwhile."""

    def __init__(self) -> None:
        self._busy = threading.Lock()

    def simulate(self, services: Services, call: Call, request: SimulateRequest) -> msgspec.Raw:
        """Simulate changes on the fleet and the bindings of the service. Returns a ``SimulateAnswer`` as JSON."""
        check = partial(services.give_way, call)
        stored = stored_policies(services)
        changes = []
        for index, each in enumerate(request.changes):
            path, change = f"changes[{index}]", each
            if isinstance(change, PolicyChange):
                change = PolicyChange(as_stored(change.policy, stored, f"{path}.policy"))
            changes.append(change_of(change, path))
        require_synced(services)
        require_watched(services, BINDINGS, subject="the workloads are")
        if any(isinstance(each, PolicyChange) for each in request.changes):
            require_watched(services, WORKLOADS, subject="the workloads that a policy selects are")
        if not self._busy.acquire(blocking=False):
            raise Refusal(429, "another simulation is running", headers=RETRY_SOON)
        try:
            return _run(services, request, changes, check)
        finally:
            self._busy.release()


def _run(
    services: Services, request: SimulateRequest, changes: list[SimulatedChange], check: Callable[[], None]
) -> msgspec.Raw:
    state = services.state
    now = services.clock.now()
    world = state.assuming(state.world(check), now, request.failover, request.preemption)
    requested = ChangeSet(edits=tuple(RequestedChange(each, f"changes[{index}]") for index, each in enumerate(changes)))
    observed, about = state.observed is not None or not state.file_gaps, (state.gaps(ANY_READER), state.staleness)

    def compute(send: Callable[[bytes], None]) -> None:
        fleet = planned_fleet(world, requested, state.profile, now)
        answer = simulate_answer(fleet, show_all=request.all, observed=observed)
        send(encode_json(replace(answer, gaps=about[0], staleness=about[1])))

    [answer] = Forked(compute, check)
    return msgspec.Raw(answer)


class RequestedChange(NamedTuple):
    """A change whose errors name its place in the request."""

    change: SimulatedChange
    path: str

    def applied(self, world: World, now: datetime) -> World:
        try:
            return self.change.applied(world, now)
        except FieldError as error:
            raise error.below(self.path) from None
        except InputError as error:
            raise FieldError(self.path, str(error)) from None


def stored_policies(services: Services) -> Mapping[PolicyReference, Policy]:
    """Return the policies that the service knows."""
    with services.state.reading() as cache:
        return {each.reference: each for each in cache.policies}


def as_stored(written: Policy, stored: Mapping[PolicyReference, Policy], path: str) -> Policy:
    """Return a policy with the stored scheduler if it names none. Refuses another one, as Karmada does."""
    before = stored.get(written.reference)
    if before is None:
        return written
    if not written.spec.scheduler_name:
        return with_spec(written, scheduler_name=before.spec.scheduler_name)
    refuse_invalid(error.below(path) for error in update_errors(before, written))
    return written


def change_of(change: Change, path: str) -> SimulatedChange:
    """Return the change of the simulation."""
    values = asdict(change)
    match change:
        case what_if.TaintChange(_, taint):
            _require(taint.effect in EFFECTS, f"{path}.taint.effect", taint.effect, ", ".join(EFFECTS))
            _require(is_label_key(taint.key), f"{path}.taint.key", taint.key, "a label key")
            _require(is_label_value(taint.value), f"{path}.taint.value", taint.value, "a label value")
        case what_if.LabelChange(_, key, value):
            _require(is_label_key(key), f"{path}.key", key, "a label key")
            _require(is_label_value(value), f"{path}.value", value, "a label value")
        case what_if.ScaleChange(resource):
            values["resource"] = ResourceName.parse(resource)
            accepted = "accepted is KIND/NAME or NAMESPACE/KIND/NAME"
            if values["resource"] is None:
                raise FieldError(f"{path}.resource", f"{shown(resource)} is not a resource name; {accepted}")
        case what_if.AddClusterChange(cluster):
            _require(bool(cluster.name), f"{path}.cluster.metadata.name", cluster.name, "a name")
            refuse_invalid(error.below(f"{path}.cluster") for error in cluster_errors(cluster))
        case what_if.PolicyChange(written):
            policy, below = defaulted(written), f"{path}.policy"
            _require(bool(policy.metadata.name), f"{below}.metadata.name", policy.metadata.name, "a name")
            refuse_invalid(error.below(below) for error in policy_errors(policy))
            values = {"policy": policy}
    found: SimulatedChange = what_if.SIMULATED[type(change)](**values)
    return found


def _require(fulfilled: bool, path: str, value: str, accepted: str) -> None:  # noqa: FBT001 - the condition itself
    if not fulfilled:
        raise FieldError(path, f"{shown(value)} is not accepted; accepted is {accepted}")
