"""One binding: found, guarded, marked at most once, and never with an earlier mark."""

import json
from datetime import timedelta

import pytest
from faults import only
from kube_in_memory import KubeInMemory
from rebalancing import CREATED, EARLIER, LATER, binding, binding_path, put_binding, text, workload

from berthmaster.controllers.rebalancer.progress import BindingMissing, Marked, NotMarked
from berthmaster.controllers.rebalancer.reconciler import MAX_ATTEMPTS, binding_of, mark
from berthmaster.kube.events import Reference
from berthmaster.kube.requests import Collection
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


@pytest.mark.parametrize(
    ("named", "where"),
    [
        pytest.param(value("web"), (BINDINGS, KEY), id="of a namespaced workload, in its namespace"),
        pytest.param(
            value("reader", "", "ClusterRole"),
            (CLUSTER_BINDINGS, ("", "reader-clusterrole")),
            id="of a cluster-scoped one",
        ),
        pytest.param(
            value("system:Reader", "", "ClusterRole"),
            (CLUSTER_BINDINGS, ("", "system.reader-clusterrole")),
            id="of one with a colon and capitals",
        ),
        pytest.param(value("../../pods/web"), None, id="not of a name that leads elsewhere"),
        pytest.param(value("web", kind="Deployment/status"), None, id="nor of a kind that does"),
        pytest.param(value("web", "shop/pods"), None, id="nor of a namespace that does"),
        pytest.param(value("web?force=true"), None, id="nor with a query in it"),
        pytest.param(value(""), None, id="nor without a name"),
    ],
)
def test_where_the_binding_is(named, where):
    assert binding_of(named) == where


@pytest.mark.parametrize(
    ("marked", "scheduled", "writes", "overtaken_at"),
    [
        pytest.param(None, EARLIER, 1, None, id="none yet: marked"),
        pytest.param(EARLIER, EARLIER, 1, None, id="an earlier mark: marked"),
        pytest.param(CREATED, EARLIER, 0, None, id="the same mark: left alone"),
        pytest.param(LATER, EARLIER, 0, None, id="a later mark: left alone"),
        pytest.param(None, None, 1, None, id="never scheduled: marked"),
        pytest.param(None, LATER, 1, LATER, id="scheduled later: marked, in vain"),
        pytest.param(None, CREATED, 1, CREATED, id="scheduled in the same second: marked, in vain"),
        pytest.param(CREATED, LATER, 0, None, id="the same mark and scheduled since: all is done"),
    ],
)
def test_a_mark(api, marked, scheduled, writes, overtaken_at):
    before = put_binding(api, "web", marked=marked, scheduled=scheduled)
    found = mark(api, WEB, CREATED)
    after = api.get(WEB_BINDING)
    stamped = Reference("work.karmada.io/v1alpha2", "ResourceBinding", *KEY, before["metadata"]["uid"])
    assert found == (Marked(stamped, overtaken_at) if writes else Marked())
    assert len(api.writes()) == writes
    assert after["spec"]["rescheduleTriggeredAt"] == text(max(CREATED, marked or CREATED))
    assert after["spec"]["clusters"] == before["spec"]["clusters"]
    assert after["status"] == before["status"]


def test_a_cluster_scoped_workload_has_a_cluster_scoped_binding(api):
    put_binding(api, "reader", "")
    found = mark(api, value("reader", "", "ClusterRole"), CREATED)
    assert found.stamped.kind == "ClusterResourceBinding"
    assert api.get(binding_path("reader", ""))["spec"]["rescheduleTriggeredAt"] == text(CREATED)


@pytest.mark.parametrize(
    ("error", "missing"),
    [
        pytest.param(ApiError(404, "NotFound", "gone"), True, id="the server's word that it is not there: missing"),
        pytest.param(ApiError(404, "", "404 page not found"), False, id="a bare 404, of a kind not served: trouble"),
        pytest.param(ApiError(403, "Forbidden", "no"), False, id="forbidden: trouble"),
        pytest.param(ApiError(500, "InternalError", "no"), False, id="a server that fails: trouble"),
        pytest.param(
            ApiError(429, "TooManyRequests", "slow", 7), False, id="a server that has too much to do: trouble"
        ),
        pytest.param(ApiError(0, "", "nobody"), False, id="nobody there: trouble"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "PATCH"])
def test_an_answer_to_either_request(api, error, missing, method):
    put_binding(api, "web")

    def refuse(_request):
        raise error

    api.before = only(refuse, method)
    assert mark(api, WEB, CREATED) == (BindingMissing() if missing else NotMarked(error))


def test_an_unreadable_binding_is_trouble_that_says_where(api):
    api.put(WEB_BINDING, {**binding("web"), "status": {"lastScheduledTime": "yesterday"}})
    found = mark(api, WEB, CREATED)
    assert "shop/web-deployment" in str(found.error)
    assert "status.lastScheduledTime" in str(found.error)


def test_what_others_write_in_between_is_not_lost_and_a_later_mark_does_not_go_back(api):
    put_binding(api, "web")
    api.before = once_before_patch(lambda _: api.edit(WEB_BINDING, spec={"rescheduleTriggeredAt": text(LATER)}))
    assert mark(api, WEB, CREATED) == Marked()
    assert api.get(WEB_BINDING)["spec"]["rescheduleTriggeredAt"] == text(LATER)


def test_a_binding_that_was_made_anew_in_between_is_marked_too(api):
    put_binding(api, "web")

    def anew(_request) -> None:
        api.remove(WEB_BINDING)
        put_binding(api, "web", scheduled=None)

    api.before = once_before_patch(anew)
    assert mark(api, WEB, CREATED).stamped.uid == api.get(WEB_BINDING)["metadata"]["uid"]


def test_a_binding_that_goes_in_between_is_missing(api):
    put_binding(api, "web")
    api.before = once_before_patch(lambda _: api.remove(WEB_BINDING))
    assert mark(api, WEB, CREATED) == BindingMissing()


def test_a_binding_that_others_write_to_all_the_time_is_left_to_the_next_time(api):
    put_binding(api, "web")
    clock = iter(range(100))

    api.before = only(lambda _: api.edit(WEB_BINDING, status={"count": next(clock)}), "PATCH")
    found = mark(api, WEB, CREATED)
    assert found.error.conflict
    assert len(api.writes()) == MAX_ATTEMPTS
    assert "rescheduleTriggeredAt" not in api.get(WEB_BINDING)["spec"]


def test_the_write_names_nothing_but_its_guard_and_the_mark(api):
    before = put_binding(api, "web")
    mark(api, WEB, CREATED + timedelta(0))
    [request] = [each for each in api.requests if each.method == "PATCH"]
    assert request.content_type == "application/merge-patch+json"
    guard = {field: before["metadata"][field] for field in ("uid", "resourceVersion")}
    assert json.loads(request.body) == {"metadata": guard, "spec": {"rescheduleTriggeredAt": text(CREATED)}}


def once_before_patch(act):
    return only(act, "PATCH", times=1)
