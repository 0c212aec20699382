"""The lease of the controllers as the extender reads it: from an API server, and from manifests."""

import json
from datetime import UTC, datetime, timedelta

from kube_in_memory import ScriptedClient
from tables import cases

from berthmaster.deciding.lease_record import BRAKE, SOURCES
from berthmaster.manifests import Document
from berthmaster.model.errors import ApiError
from extender.state.controllers_lease import DEFAULT_LEASE, LeasePoll, lease_in

PATH = "GET /apis/coordination.k8s.io/v1/namespaces/karmada-system/leases/berthmaster-controllers"
LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {
        "namespace": DEFAULT_LEASE[0],
        "name": DEFAULT_LEASE[1],
        "annotations": {
            BRAKE: json.dumps({"reason": "storm"}),
            SOURCES: json.dumps({"pause": "All", "moveBudgets": []}),
        },
    },
}


def read(answer):
    poll = LeasePoll(DEFAULT_LEASE)
    poll.read(ScriptedClient({} if answer is None else {PATH: answer}))
    return poll.reading


def test_the_record_of_the_lease_is_read():
    record, gap = read(LEASE)
    assert (record.brake.reason, record.sources.pause, record.sources.budgets, gap) == ("storm", "All", (), "")


@cases(
    ("answer", "gap"),
    {
        "no lease": (None, "there is no Lease karmada-system/berthmaster-controllers"),
        "no right": (ApiError(403, "Forbidden", "no"), "no right to get the Lease"),
        "no answer": (ApiError(0, "", "connection refused"), "cannot be read"),
    },
)
def test_what_cannot_be_read_is_a_gap_and_not_a_brake_that_is_off(answer, gap):
    found = read(answer)
    assert found.record is None
    assert gap in found.gap
    assert "storm brake" in found.gap


def test_each_change_and_the_end_of_renewals_have_another_fingerprint_and_a_renewal_has_not():
    poll, seen = LeasePoll(DEFAULT_LEASE), []
    now = datetime.now(UTC)
    for age_s in (20, 10, 900):
        spec = {"renewTime": (now - timedelta(seconds=age_s)).isoformat()}
        poll.read(ScriptedClient({PATH: {**LEASE, "spec": spec}}))
        seen.append(poll.fingerprint.value)
        assert poll.reading.record.renewed_at == now - timedelta(seconds=age_s)
    poll.read(ScriptedClient({PATH: {**LEASE, "metadata": {}, "spec": spec}}))
    assert seen[0] == seen[1]
    assert len({*seen, poll.fingerprint.value}) == 3


def test_the_lease_among_manifests_counts():
    document = Document("dump.yaml", 1, "", LEASE)
    assert lease_in([document], DEFAULT_LEASE).record.brake.reason == "storm"
    assert "the manifests have no Lease other/name" in lease_in([document], ("other", "name")).gap
