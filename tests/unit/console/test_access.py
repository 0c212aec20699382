"""Which namespaces a visitor may see, by access reviews."""

import json
import threading

import pytest
from fake_clock import FakeClock
from kube_in_memory import ScriptedClient
from tables import cases
from waiting import wait_for

from berthmaster.model.errors import ApiError
from console.access import NamespaceAccess
from console.source import SourceError
from console.visitor import Visitor

REVIEW = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"
ADA = Visitor("ada", "token", ("team-shop",))


def reviewed(allowed):
    """An API server that allows pairs of resource and namespace."""

    def answer(request):
        attributes = json.loads(request.body)["spec"]["resourceAttributes"]
        return {"status": {"allowed": (attributes["resource"], attributes["namespace"]) in allowed}}

    return ScriptedClient({REVIEW: answer})


def access(client, clock=None, namespaces=("shop", "pay", "ops")):
    return NamespaceAccess(client, clock or FakeClock(), lambda: namespaces)


@cases(
    ("allowed", "namespaces"),
    {
        "nothing": (set(), frozenset()),
        "one namespace": ({("resourcebindings", "shop")}, frozenset({"shop"})),
        "all namespaces, nothing cluster-scoped": ({("resourcebindings", "")}, frozenset({"shop", "pay", "ops"})),
        "what is cluster-scoped": ({("clusterresourcebindings", "")}, frozenset({"-"})),
        "everything": ({("resourcebindings", ""), ("clusterresourcebindings", "")}, None),
    },
)
def test_a_visitor_sees_where_listing_bindings_is_allowed(allowed, namespaces):
    assert access(reviewed(allowed)).namespaces_of(ADA) == namespaces


@cases(
    ("allowed", "namespace", "may"),
    {
        "in the namespace": ({("events", "shop")}, "shop", True),
        "in another one": ({("events", "pay")}, "shop", False),
        "bindings only": ({("resourcebindings", "shop")}, "shop", False),
        "of cluster-scoped objects, which have theirs in default": ({("events", "default")}, "", True),
    },
)
def test_events_are_a_right_of_their_own(allowed, namespace, may):
    assert access(reviewed(allowed)).may_list_events(ADA, namespace) is may


def test_the_review_carries_user_and_groups():
    client = reviewed(set())
    access(client).namespaces_of(ADA)
    specs = [json.loads(each.body)["spec"] for each in client.asked]
    assert {(spec["user"], *spec["groups"], spec["resourceAttributes"]["verb"]) for spec in specs} == {
        ("ada", "team-shop", "list")
    }


def test_an_answer_is_kept_for_thirty_seconds_and_for_one_visitor():
    client, clock = reviewed(set()), FakeClock()
    asking = access(client, clock)
    asking.namespaces_of(ADA)
    before = len(client.asked)
    asking.namespaces_of(ADA)
    assert len(client.asked) == before
    asking.namespaces_of(Visitor("ada", "token", ("another-team",)))
    assert len(client.asked) == 2 * before
    clock.pass_by(61)
    asking.namespaces_of(ADA)
    assert len(client.asked) == 3 * before


def test_an_answer_that_is_a_little_old_counts_while_it_is_asked_again():
    allowed, clock = {("resourcebindings", "shop")}, FakeClock()
    asking = access(reviewed(allowed), clock)
    assert asking.namespaces_of(ADA) == {"shop"}
    allowed.clear()
    clock.pass_by(31)
    assert asking.namespaces_of(ADA) == {"shop"}
    wait_for(lambda: asking.namespaces_of(ADA) == frozenset())
    allowed.add(("resourcebindings", "pay"))
    clock.pass_by(61)
    assert asking.namespaces_of(ADA) == {"pay"}


def test_equal_questions_at_one_time_are_asked_once():
    release, client = threading.Event(), reviewed({("resourcebindings", "shop")})
    send = client.send
    client.send = lambda request: (release.wait(30), send(request))[1]
    asking, found = access(client), []
    threads = [threading.Thread(target=lambda: found.append(asking.namespaces_of(ADA))) for _ in range(12)]
    for each in threads:
        each.start()
    release.set()
    for each in threads:
        each.join(30)
    assert (found, len(client.asked)) == ([{"shop"}] * 12, 5)


def test_a_page_of_one_namespace_asks_about_this_one_only():
    client = reviewed({("resourcebindings", "shop"), ("resourcebindings", "pay")})
    asking = access(client)
    assert asking.namespaces_of(ADA, "shop") == {"shop"}
    assert len(client.asked) == 3
    assert asking.namespaces_of(ADA, "ops") == frozenset()
    assert asking.namespaces_of(ADA) == {"shop", "pay"}


@pytest.mark.parametrize("error", [ApiError(0, "", "connection refused"), ApiError(403, "Forbidden", "forbidden")])
def test_if_the_api_server_cannot_be_asked_nothing_is_shown(error):
    with pytest.raises(SourceError, match="cannot be asked what you may see, so nothing is shown") as raised:
        access(ScriptedClient({REVIEW: error})).namespaces_of(ADA)
    assert raised.value.status == 503


def test_an_answer_that_is_no_review_allows_nothing():
    assert access(ScriptedClient({REVIEW: {"status": {}}})).namespaces_of(ADA) == frozenset()


def test_a_closed_connection_is_tried_once_more():
    client = ScriptedClient({REVIEW: [ApiError(0, "", "closed"), {"status": {"allowed": True}}]})
    assert access(client).namespaces_of(ADA) is None
