"""Schedule a binding."""

import json
from datetime import UTC, datetime

import pytest
from builders import binding, cluster
from extender_services import refusing, services_of
from tables import cases

from berthmaster.deciding.lease_record import BrakeRecord, ControllersRecord, LeaseRecord
from berthmaster.deciding.writes import applied_affinity
from berthmaster.model.applied_placement import encoded_placement
from berthmaster.model.binding import APPLIED_PLACEMENT
from berthmaster.model.decode import convert, decode_json, encode_json
from berthmaster.model.meta import with_status
from berthmaster.model.move import APPLIED_AFFINITY
from berthmaster.model.placement import Placement
from berthmaster.model.placement_limits import DEFAULT_LIMITS
from berthmaster.native_api.wire import ScheduleRequest
from berthmaster.scheduling.decision import FailureKind
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.world import World
from extender.protocols.native import schedule
from extender.protocols.native.schedule import decide_request, is_cheap
from extender.protocols.problem import Refusal
from extender.protocols.services import Call
from extender.state.controllers_lease import LeaseReading

CALL = Call("request-1", 1e9)
CLUSTERS = tuple(cluster(name) for name in "abc")


@pytest.fixture
def services():
    return services_of(World({each.name: each for each in CLUSTERS}, ()))


def grouped(groups):
    names = [{"affinityName": str(number), "clusterNames": ["nowhere"]} for number in range(groups)]
    return binding(placement=convert(Placement, {"clusterAffinities": names}))


@cases(
    ("serves", "trigger"), {"the recorded scheduler": ("fleet", Trigger.FAILOVER), "another one": ("", Trigger.NONE)}
)
def test_the_scheduler_that_the_lease_records_leaves_a_missing_cluster(services, serves, trigger):
    record = LeaseRecord(BrakeRecord(), None, controllers=ControllersRecord(serves))
    services.state.lease = lambda: LeaseReading(record)
    asked = convert(Placement, {"replicaScheduling": {"replicaSchedulingType": "Divided"}})
    applied = {APPLIED_PLACEMENT: encode_json(asked).decode()}
    given = binding(
        replicas=2, clusters={"a": 1, "gone": 1}, placement=asked, annotations=applied, scheduler_name="fleet"
    )
    given = with_status(given, last_scheduled_time=datetime(2026, 1, 1, tzinfo=UTC))
    decided = decide_request(services, ScheduleRequest(given), CALL, size_bytes=1, diagnose=False)
    assert decided.trigger is trigger


def test_the_group_of_the_last_write_counts_while_the_status_is_stale(services):
    groups = [{"affinityName": "own", "clusterNames": ["a"]}, {"affinityName": "cloud", "clusterNames": ["b"]}]
    asked = convert(Placement, {"clusterAffinities": groups})
    annotations = {
        APPLIED_PLACEMENT: encoded_placement(asked), APPLIED_AFFINITY: applied_affinity("cloud", {"b": 1}),
    }  # fmt: skip
    given = binding(clusters={"b": 1}, placement=asked, annotations=annotations)
    given = with_status(given, scheduler_observing_affinity_name="own")
    assert decide_request(services, ScheduleRequest(given), CALL, size_bytes=1, diagnose=False).group == "cloud"


@cases("clusters", {"on the service's fleet": None, "on the clusters of the request": CLUSTERS})
def test_a_diagnosis_of_too_many_groups_and_clusters_is_refused(services, clusters, monkeypatch):
    monkeypatch.setattr(schedule, "MAX_EXPLAINED", 30)

    def explained(groups):
        return decide_request(services, ScheduleRequest(grouped(groups), clusters), CALL, size_bytes=1, diagnose=True)

    assert len(explained(10).diagnosis.groups) == 10
    with refusing(400, "has 11 groups, and there are 3 clusters; a diagnosis has at most 30 pairs"):
        explained(11)


def test_a_large_request_must_contain_its_clusters(services):
    def decided(size_bytes, clusters=None):
        return decide_request(
            services, ScheduleRequest(grouped(1), clusters), CALL, size_bytes=size_bytes, diagnose=False
        )

    assert decided(3 * 2**20).message == "none of 3 clusters fits"
    assert decided(3 * 2**20 + 1, CLUSTERS).message == "none of 3 clusters fits"
    with refusing(413, "the request has 3145729 bytes"):
        decided(3 * 2**20 + 1)


@cases(
    ("body", "cheap"),
    {
        "the fleet of the service": (b'{"binding":{"spec":{"clusters":[{"name":"a"}]}}}', True),
        "no clusters": (b'{"clusters":null}', True),
        "an empty fleet": (b'{"clusters":[]}', False),
        "clusters of the request": (b'{"binding":{},"clusters":[{"a":1}]}', False),
        "clusters under an escaped name": (b'{"clust\\u0065rs":[{"a":1}]}', False),
        "a large body": (b'{"binding":"' + b"x" * 20_000 + b'"}', False),
        "many groups": (b'{"affinityName":1}' * 17, False),
        "many expressions": (b'{"operator":1}' * 17, False),
        "many escaped characters": (b'{"\\u006fperator":1}' * 17, False),
        "many labels": (b'{"a":{' + b'"k":"v",' * 600 + b'"k":""}}', False),
        "a region search": (b'{"spreadByField":"region"}', False),
        "an error": (b"not JSON", True),
        "deep nesting": (b'{"a":' + b"[" * 5000, True),
    },
)
def test_only_small_requests_without_clusters_are_cheap(body, cheap):
    assert is_cheap(body) is cheap


def test_a_placement_above_a_limit_is_refused_with_the_field(services):
    with pytest.raises(Refusal) as refused:
        decide_request(services, ScheduleRequest(grouped(1025)), CALL, size_bytes=1, diagnose=False)
    [error] = refused.value.errors
    assert (refused.value.status, error.path) == (400, "binding.spec.placement.clusterAffinities")
    assert error.detail.startswith("1,025 groups; at most 1,024 are scheduled")


UNKNOWN_FIELDS = [
    pytest.param({"racks": 1}, "binding.spec.placement.racks", id="a field of the placement"),
    pytest.param(
        {"clusterAffinities": [{"affinityName": "a", "tier": 1}]},
        "binding.spec.placement.clusterAffinities[0].tier",
        id="a field of a group",
    ),
    pytest.param({"racks": "x" * 9000}, "binding.spec.placement.racks", id="a field of a large placement"),
]


@pytest.mark.parametrize(("placement", "path"), UNKNOWN_FIELDS)
@cases("again", {"once": False, "again": True})
def test_an_unknown_field_of_the_placement_is_refused(services, placement, path, again):
    document = json.loads(encode_json(ScheduleRequest(grouped(1), CLUSTERS)))
    document["binding"]["spec"]["placement"] = placement
    call = Call("id", 1e9, json.dumps(document).encode())
    for _ in range(1 + again):
        with pytest.raises(Refusal) as refused:
            schedule.schedule_one(services, call)
        assert [refused.value.status, *(each.path for each in refused.value.errors)] == [400, path]


@pytest.mark.parametrize("change", [{"placement": None}, {"placement": {"racks": None}}, {"racks": 1}], ids=str)
def test_unknown_fields_elsewhere_and_null_are_ignored(services, change):
    document = json.loads(encode_json(ScheduleRequest(grouped(1), CLUSTERS)))
    document["binding"]["spec"].update(change)
    assert schedule.schedule_one(services, Call("id", 1e9, json.dumps(document).encode())).body


def test_a_decision_that_takes_too_many_steps_is_an_answer_of_its_own(services):
    services.state.profile = karmada_profile(limits=DEFAULT_LIMITS._replace(steps=1000))
    decided = decide_request(services, ScheduleRequest(grouped(9), CLUSTERS), CALL, size_bytes=1, diagnose=True)
    assert decided.error is FailureKind.TOO_LARGE
    assert decided.message.startswith("the decision takes more than 1,000 steps")
    assert decided.diagnosis.groups == []


def test_the_deadline_is_checked_between_groups(services):
    services.clock.pass_by(1e9)
    with pytest.raises(Refusal, match="the reply was not ready in time"):
        decide_request(services, ScheduleRequest(grouped(2)), CALL, size_bytes=1, diagnose=False)


def test_a_body_with_too_many_groups_is_refused_before_it_is_decoded(services, monkeypatch):
    decoded = []
    monkeypatch.setattr(schedule, "decode_json", lambda kind, body: decoded.append(body) or decode_json(kind, body))
    limits = services.state.profile.limits
    most = limits.groups * (1 + limits.overflow_affinities)
    body = encode_json(ScheduleRequest(grouped(most + 1)))
    with pytest.raises(Refusal, match=r"clusterAffinities: 66,561 groups and overflow .*; at most 66,560 are read"):
        schedule.schedule_one(services, Call("id", 1e9, body))
    assert decoded == []
