"""Marking one binding: its name, the guard of the write, and the order of marks."""

import json
from datetime import timedelta

import pytest
from faults import only
from kube_in_memory import KubeInMemory
from rebalancing import CREATED, EARLIER, LATER, binding_path, put_binding, text, workload
from tables import cases

from berthmaster.controllers.rebalancer.progress import BindingMissing, Marked, NotMarked
from berthmaster.controllers.rebalancer.reconciler import MAX_ATTEMPTS, binding_of, mark
from berthmaster.kube.events import Reference
from berthmaster.kube.requests import Collection
from berthmaster.model.binding import REBALANCE
from berthmaster.model.decode import convert
from berthmaster.model.errors import ApiError
from berthmaster.model.rebalancer import RebalancedWorkload

BINDINGS = Collection.of("work.karmada.io/v1alpha2", "resourcebindings")
CLUSTER_BINDINGS = Collection.of("work.karmada.io/v1alpha2", "clusterresourcebindings")
KEY = ("shop", "web-deployment")
WEB_BINDING = binding_path("web")


def value(*arguments, **more) -> RebalancedWorkload:
    return convert(RebalancedWorkload, workload(*arguments, **more))


WEB = value("web")


@pytest.fixture
def api() -> KubeInMemory:
    return KubeInMemory()


@cases(
    ("named", "where"),
    {
        "a namespaced workload": (value("web"), (BINDINGS, KEY)),
        "a cluster-scoped workload": (
            value("reader", "", "ClusterRole"),
            (CLUSTER_BINDINGS, ("", "reader-clusterrole")),
        ),
        "a name with a colon and capitals": (
            value("system:Reader", "", "ClusterRole"),
            (CLUSTER_BINDINGS, ("", "system.reader-clusterrole")),
        ),
        "a name with path characters": (value("../../pods/web"), None),
        "a kind with path characters": (value("web", kind="Deployment/status"), None),
        "a namespace with path characters": (value("web", "shop/pods"), None),
        "a name with a query": (value("web?force=true"), None),
        "an empty name": (value(""), None),
    },
)
def test_the_binding_of_a_workload(named, where):
    assert binding_of(named) == where


@cases(
    ("marked", "scheduled", "writes", "scheduled_later_at"),
    {
        "no mark: written": (None, EARLIER, 1, None),
        "an earlier mark: replaced": (EARLIER, EARLIER, 1, None),
        "the same mark: kept": (CREATED, EARLIER, 0, None),
        "a later mark: kept": (LATER, EARLIER, 0, None),
        "never scheduled: written": (None, None, 1, None),
        "scheduled later: written without effect": (None, LATER, 1, LATER),
        "scheduled in the same second: written without effect": (None, CREATED, 1, CREATED),
        "the same mark and scheduled since: kept": (CREATED, LATER, 0, None),
    },
)
def test_a_mark(api, marked, scheduled, writes, scheduled_later_at):
    before = put_binding(api, "web", marked=marked, scheduled=scheduled)
    found = mark(api, WEB, CREATED)
    after = api.get(WEB_BINDING)
    stamped = Reference("work.karmada.io/v1alpha2", "ResourceBinding", *KEY, before["metadata"]["uid"])
    assert found == (Marked(stamped, scheduled_later_at) if writes else Marked())
    assert len(api.writes()) == writes
    assert after["spec"]["rescheduleTriggeredAt"] == text(max(CREATED, marked or CREATED))
    assert after["spec"]["clusters"] == before["spec"]["clusters"]
    assert after["status"] == before["status"]


@cases(
    ("error", "missing"),
    {
        "NotFound: missing": (ApiError(404, "NotFound", "gone"), True),
        "a 404 without a reason: not marked": (ApiError(404, "", "404 page not found"), False),
        "forbidden: not marked": (ApiError(403, "Forbidden", "no"), False),
        "an internal error: not marked": (ApiError(500, "InternalError", "no"), False),
        "too many requests: not marked": (ApiError(429, "TooManyRequests", "slow", 7), False),
        "no response: not marked": (ApiError(0, "", "no response"), False),
    },
)
@pytest.mark.parametrize("method", ["GET", "PATCH"])
def test_an_error_of_either_request(api, error, missing, method):
    put_binding(api, "web")

    def refuse(_request):
        raise error

    api.before = only(refuse, method)
    assert mark(api, WEB, CREATED) == (BindingMissing() if missing else NotMarked(error))


def test_a_later_mark_written_in_between_is_kept(api):
    put_binding(api, "web")
    api.before = once_before_patch(lambda _: api.edit(WEB_BINDING, spec={"rescheduleTriggeredAt": text(LATER)}))
    assert mark(api, WEB, CREATED) == Marked()
    assert api.get(WEB_BINDING)["spec"]["rescheduleTriggeredAt"] == text(LATER)


def test_a_binding_recreated_in_between_is_marked(api):
    put_binding(api, "web")

    def recreate(_request) -> None:
        api.remove(WEB_BINDING)
        put_binding(api, "web", scheduled=None)

    api.before = once_before_patch(recreate)
    assert mark(api, WEB, CREATED).stamped.uid == api.get(WEB_BINDING)["metadata"]["uid"]


def test_a_binding_deleted_in_between_is_missing(api):
    put_binding(api, "web")
    api.before = once_before_patch(lambda _: api.remove(WEB_BINDING))
    assert mark(api, WEB, CREATED) == BindingMissing()


def test_endless_conflicts_end_the_attempt(api):
    put_binding(api, "web")
    clock = iter(range(100))

    api.before = only(lambda _: api.edit(WEB_BINDING, status={"count": next(clock)}), "PATCH")
    found = mark(api, WEB, CREATED)
    assert found.error.conflict
    assert len(api.writes()) == MAX_ATTEMPTS
    assert "rescheduleTriggeredAt" not in api.get(WEB_BINDING)["spec"]


@cases(
    ("minimal", "more"),
    {
        "a full rescheduling": (False, {}),
        "the fewest moves": (True, {"annotations": {REBALANCE: f"minimal@{text(CREATED)}"}}),
    },
)
def test_the_write_contains_only_the_guard_and_the_mark(api, minimal, more):
    before = put_binding(api, "web")
    mark(api, WEB, CREATED + timedelta(0), minimal=minimal)
    [request] = [each for each in api.requests if each.method == "PATCH"]
    assert request.content_type == "application/merge-patch+json"
    guard = {field: before["metadata"][field] for field in ("uid", "resourceVersion")}
    assert json.loads(request.body) == {"metadata": guard | more, "spec": {"rescheduleTriggeredAt": text(CREATED)}}


def once_before_patch(act):
    return only(act, "PATCH", times=1)
