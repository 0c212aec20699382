"""Watched objects are stale if the API server cannot read current objects."""

import logging
from datetime import datetime

import pytest
from fake_clock import FakeClock
from kube_in_memory import ScriptedClient

from berthmaster.kube.requests import ONLY_METADATA_LIST, Collection
from berthmaster.kube.source_check import UNCONFIRMED_S, SourceCheck
from berthmaster.model.errors import ApiError

CLUSTERS = Collection.of("cluster.karmada.io/v1alpha1", "clusters")
BINDINGS = Collection.of("work.karmada.io/v1alpha2", "resourcebindings")
WIDE_BINDINGS = Collection.of("work.karmada.io/v1alpha2", "clusterresourcebindings")
SILENT = ApiError(0, "", "the server sent nothing before the read timeout")


class Checked:
    """A check of two API groups, and the API server behind it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.client = ScriptedClient({})
        self.reports: list[tuple[str, datetime | None]] = []
        self.source = SourceCheck([CLUSTERS, BINDINGS, WIDE_BINDINGS], self.clock, self._report)
        self.answer(CLUSTERS, {"items": []})
        self.answer(WIDE_BINDINGS, {"items": []})

    def answer(self, collection: Collection, answer: object) -> None:
        self.client.answers[f"GET {collection.path}"] = answer

    def check(self, after_s: float = 0.0) -> None:
        self.clock.pass_by(after_s)
        self.source.check(self.client)

    def _report(self) -> None:
        self.reports.append((self.source.problem, self.source.stale_since))


@pytest.fixture
def checked() -> Checked:
    return Checked()


def test_one_object_of_each_api_group_is_read_from_etcd(checked):
    checked.check()
    assert [request.path for request in checked.client.asked] == [CLUSTERS.path, WIDE_BINDINGS.path]
    # A resourceVersion would let the API server respond from its memory.
    assert {request.query for request in checked.client.asked} == {(("limit", "1"),)}
    assert {request.accept for request in checked.client.asked} == {ONLY_METADATA_LIST}
    assert checked.reports == []


@pytest.mark.parametrize("failing", [CLUSTERS, WIDE_BINDINGS], ids=["the first group", "the last group"])
@pytest.mark.parametrize(
    "error", [SILENT, ApiError(504, "Timeout", "504 Timeout"), ApiError(403, "Forbidden", "403 Forbidden")],
    ids=["no response", "a timeout of the API server", "a right that was taken away"],
)  # fmt: skip
def test_checks_that_fail_for_long_make_the_objects_stale_since_the_last_success(checked, failing, error):
    checked.clock.pass_by(60)
    checked.check()
    confirmed_at = checked.clock.now()
    checked.answer(failing, error)
    checked.check(UNCONFIRMED_S - 1)
    assert checked.reports == [], "one lost connection says nothing about etcd"
    checked.check(1)
    assert checked.reports == [(checked.source.problem, confirmed_at)]
    assert str(error) in checked.source.problem
    checked.check(100)
    assert checked.source.stale_since == confirmed_at, "the time of the last success, not of the last failure"
    assert len(checked.reports) == 1


def test_the_first_success_ends_it(checked, caplog):
    caplog.set_level(logging.INFO, "berthmaster.kube")
    checked.answer(CLUSTERS, SILENT)
    checked.check(UNCONFIRMED_S)
    checked.answer(CLUSTERS, {"items": []})
    checked.check(5)
    assert (checked.source.problem, checked.source.stale_since) == ("", None)
    assert checked.reports[-1] == ("", None)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    checked.answer(CLUSTERS, SILENT)
    checked.check(UNCONFIRMED_S - 1)
    assert checked.source.problem == "", "the time counts from the last success"


def test_a_failure_is_checked_again_soon(checked):
    pause_s = checked.source._pause_s  # noqa: SLF001 - pauses are slept
    usual_s = pause_s()
    checked.answer(CLUSTERS, SILENT)
    checked.check()
    assert pause_s() < usual_s / 4
