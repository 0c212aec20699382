"""``GET /v1/days``: the last days from the ledger, and today as the list of workloads has it."""

from datetime import timedelta

import karmada_plane
import pytest
from console_ledger import recorded
from extender_services import asked, refusing, route_of, services_of, world_with
from fake_clock import FakeClock
from ledger_histories import Scheduling, cluster, recorder_at, sqlite_url, wanted

from berthmaster.ledger.reader import LedgerReader
from berthmaster.model.note import Note
from berthmaster.native_api.days import FleetDays
from berthmaster.native_api.fleet import WorkloadPage
from extender.protocols import native

LATER_S = 26 * 3600


@pytest.fixture
def made(tmp_path):
    clock = FakeClock()
    url, manifests = recorded(tmp_path, clock.now())
    routes = {each.path: each for each in native.routes() if each.method == "GET"}
    return services_of(world_with(*manifests), clock, ledger=LedgerReader(url)), routes, url


def ask(services, routes, path="/v1/days", kind=FleetDays, **query):
    return asked(services, routes[path], kind, **query)


def numbers(found):
    return [(each.date, each.nowhere, each.short, each.not_preferred, each.moving) for each in found.days]


def test_today_is_as_the_list_of_workloads_says(made):
    services, routes, _ = made
    today = ask(services, routes).days[0]
    listed = ask(services, routes, "/v1/workloads", WorkloadPage).facets.only
    assert {
        "nowhere": today.nowhere,
        "short": today.short,
        "not-preferred": today.not_preferred,
    }.items() <= listed.items()
    assert today.not_preferred == 1


def test_days_are_those_since_the_first_record(made):
    services, routes, _ = made
    found = ask(services, routes)
    today = services.clock.now().date()
    assert found.recorded_since == services.clock.now() - timedelta(hours=5)
    assert [each.date for each in found.days] == [today, today - timedelta(days=1)][: len(found.days)]
    assert sum(each.outcomes.get("placed", 0) for each in found.days) == 2


def test_a_reader_gets_the_numbers_of_its_namespaces(made):
    services, routes, _ = made
    assert numbers(ask(services, routes, namespaces="other")) == [
        (each.date, 0, 0, 0, 0) for each in ask(services, routes).days
    ]


def test_new_decisions_are_read_after_the_state_has_changed(made):
    services, routes, url = made
    before = ask(services, routes)
    clock = FakeClock.at(services.clock.now())
    recorder = recorder_at(url, clock)
    scheduling = Scheduling(recorder, clock)
    scheduling.clusters.update_cluster(cluster("full", cpu=0))
    scheduling.put(wanted("lost"))
    recorder.finish()
    services.state.fingerprint.set(b"2")
    services.clock.pass_by(LATER_S)
    found = ask(services, routes)
    assert found.days[0].date == services.clock.now().date() > before.days[0].date
    failed = next(each for each in found.days if each.date == before.days[0].date)
    assert failed.outcomes["failed"] == 1
    assert failed.not_preferred == before.days[0].not_preferred


def test_records_that_are_missing_are_said(tmp_path):
    clock = FakeClock()
    url = sqlite_url(tmp_path)
    recorder = recorder_at(url, clock)
    recorder.noted(Note("gap", "3 records are missing"))
    recorder.step()
    recorder.finish()
    services = services_of(world_with(karmada_plane.cluster("a")), clock, ledger=LedgerReader(url))
    route = route_of("/v1/days")
    assert asked(services, route, FleetDays).missing == ["3 records are missing"]
    assert asked(services, route, FleetDays, namespaces="shop").missing == []


def test_an_empty_ledger_knows_today_only(tmp_path):
    services = services_of(world_with(karmada_plane.cluster("a")), ledger=LedgerReader(sqlite_url(tmp_path)))
    found = asked(services, route_of("/v1/days"), FleetDays)
    assert found.recorded_since is None
    assert [each.date for each in found.days] == [services.clock.now().date()]


def test_without_a_ledger_or_bindings_there_are_no_days(made):
    services, routes, _ = made
    services.state.watched = ("clusters",)
    with refusing(409, "bindings"):
        ask(services, routes)
    services.ledger = None
    with refusing(409, "--ledger"):
        ask(services, routes)


def test_a_ledger_that_cannot_be_read_is_no_answer(made, tmp_path):
    services, routes, _ = made
    (tmp_path / "ledger.db").write_bytes(b"no database" * 100)
    with refusing(503, "the ledger cannot be read now"):
        ask(services, routes)
