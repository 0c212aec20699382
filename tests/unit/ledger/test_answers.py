"""Questions about recorded decisions, as services and the command ask them."""

import pytest
from builders import cluster
from fake_clock import FakeClock
from ledger_histories import FAILOVER_AFTER_S, Scheduling, recorder_at, sqlite_url, wanted

from berthmaster.ledger.reader import LedgerReader
from berthmaster.ledger.records import Query, RecordId
from berthmaster.model.errors import InputError, NotRecordedError

WEB = Query("shop", "Deployment", "web")


@pytest.fixture(scope="module")
def ledger(tmp_path_factory) -> LedgerReader:
    """Decision 1.1 places web on m1; m1 fails, and decision 1.2 moves it to m2."""
    url, clock = sqlite_url(tmp_path_factory.mktemp("ledger")), FakeClock()
    recorder = recorder_at(url, clock)
    scheduling = Scheduling(recorder, clock)
    for name, cpu in (("m1", 9), ("m2", 8), ("m3", 1)):
        scheduling.clusters.update_cluster(cluster(name, cpu=cpu))
    scheduling.put(wanted("web", replicas=4))
    scheduling.clusters.update_cluster(cluster("m1", cpu=9, ready=False))
    clock.pass_by(FAILOVER_AFTER_S + 1)
    scheduling.reconcile("shop", "web-deployment")
    recorder.finish()
    return LedgerReader(url)


@pytest.mark.parametrize("which", [RecordId(1, 2), WEB])
def test_a_decision_is_explained_by_its_id_and_as_the_latest_of_a_workload(ledger, which):
    found = ledger.explain(which, difference=True)
    assert (found.record.id, found.record.trigger, found.reproduced) == ("1.2", "Failover", True)
    assert (found.record.before, found.record.after) == ({"m1": 4}, {"m2": 4})
    assert ("m1", "conditions") in {(each.subject, each.aspect) for each in found.difference.changes}


def test_the_first_decision_on_a_binding_has_no_difference(ledger):
    assert ledger.explain(RecordId(1, 1), difference=True).difference is None


def test_why_not_answers_for_a_failover_without_the_cluster_that_failed(ledger):
    answer = ledger.why_not(RecordId(1, 2), "m3")
    assert (answer.changes, answer.clusters) == (["add 8 cpu to m3"], {"m3": 4})
    assert ledger.why_not(RecordId(1, 2), "m2").taken


@pytest.mark.parametrize("which", [RecordId(1, 9), RecordId(9, 1), RecordId(1, 0), WEB._replace(name="other")])
def test_a_decision_that_is_not_recorded_is_named_as_such(ledger, which):
    for ask in (ledger.explain, lambda which: ledger.why_not(which, "m1")):
        with pytest.raises(NotRecordedError, match="the ledger has no"):
            ask(which)


def test_a_cluster_that_the_fleet_did_not_have_is_refused(ledger):
    with pytest.raises(InputError, match="there is no cluster 'm9'; known are m1, m2, m3"):
        ledger.why_not(WEB, "m9")
