"""Questions to the extender: the breaker, the time limit, the bound of questions at once, and what answers mean."""

import json
import threading

import pytest
from fake_clock import FakeClock
from fake_metrics import FakeMetrics
from http_peer import HANG_UP, http_response
from tables import cases
from waiting import wait_for

from berthmaster.model.decode import decode_json
from berthmaster.model.errors import InputError
from berthmaster.native_api.connection import Answer, ExtenderAccess, UnansweredError
from berthmaster.native_api.what_if import ChangeReview
from berthmaster.native_api.wire import NOT_READY
from berthmaster.runtime.clock import SystemClock
from webhook.admission.blast_radius import BlastRadius
from webhook.admission.impact import NotComputed, PolicyImpact, ReviewedChange, Unanswered
from webhook.circuit_breaker import FAILURES, OPEN_S, Breaker
from webhook.extender_client import ExtenderClient
from webhook.extender_wire import impact_of, review_request
from webhook.impact import ExtenderImpact
from webhook.turns import Turns

POLICY = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "metadata": {"labels": {"a": "b"}},
    "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": {}},
}
CHANGE = ReviewedChange("PropagationPolicy", "shop", "web", POLICY)
COUNTS = {"workloads": 9, "concerned": 2, "moved": 1, "replicas": 4, "lost": 1, "short": 0, "deletedCopies": 1}
MOVE = {"resource": "shop/Deployment/c", "leaves": ["m1"], "reaches": {"m2": 3}, "changes": {"m3": [1, 2]}}
ANSWER = {
    "id": "p1",
    "complete": True,
    **COUNTS,
    "worst": [{"resource": "shop/Deployment/a", "failure": "nowhere", "message": "no cluster fits"}, MOVE],
    "later": "a field of a newer extender",
}
OK = Answer(200, "OK", json.dumps(ANSWER).encode())


def unanswered(problem, *, unreachable=False):
    return UnansweredError("http://extender", problem, unreachable=unreachable)


CUT = unanswered("did not answer: cut")
REFUSED = unanswered("cannot be reached: refused", unreachable=True)


class Scripted:
    """A client with scripted answers. The last one repeats."""

    def __init__(self, *answers):
        self._answers = list(answers)
        self.asked = 0

    def post(self, _body, _timeout_s):
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Hanging:
    """A client that answers only when the test lets it."""

    def __init__(self):
        self.go_on = threading.Event()

    def post(self, _body, _timeout_s):
        self.go_on.wait(60)
        return OK


def source(client, clock=None, **options):
    return ExtenderImpact(client, clock or FakeClock(), FakeMetrics().answered, **{"timeout_s": 30.0, **options})


def problem(status, detail="why", kind="about:blank"):
    content = {"title": "x", "status": status, "detail": detail, "type": kind}
    return Answer(status, "", json.dumps(content).encode())


def test_an_answer_is_an_impact():
    answer = source(Scripted(OK)).ask(CHANGE, 60.0)
    assert answer == PolicyImpact(
        "p1", 9, 2, 1, 4, 1, 0, 1,
        worst=("shop/Deployment/a would have no place: no cluster fits",
         "shop/Deployment/c leaves m1, reaches m2 (3), changes m3 1->2"),
    )  # fmt: skip


def test_the_request_has_what_decisions_read():
    change = CHANGE._replace(author="alice")
    request = json.loads(review_request(change, None, 0.24))
    named = {"namespace": "shop", "name": "web"}
    stored = {**POLICY, "kind": "PropagationPolicy", "metadata": named}
    assert request == {
        "timeoutMs": 240, "dryRun": False, "user": "alice",
        "change": {"type": "set", "policy": stored, "creates": False},
    }  # fmt: skip
    accepting = change._replace(creates=True, accepts=True, dry_run=True)
    assert json.loads(review_request(accepting, BlastRadius(moved=5), 0.24)) == {
        "timeoutMs": 240, "dryRun": True, "user": "alice",
        "change": {"type": "set", "policy": stored, "creates": True}, "limits": {"moved": 5}, "accepts": True,
    }  # fmt: skip
    assert json.loads(review_request(change._replace(document=None), None, 0.24))["change"] == {
        "type": "delete", "policy": {"kind": "PropagationPolicy", **named},
    }  # fmt: skip


def test_the_extender_can_read_the_request():
    for change in (CHANGE, CHANGE._replace(document=None), CHANGE._replace(accepts=True, dry_run=True)):
        request = decode_json(ChangeReview, review_request(change, BlastRadius(moved=5, lost=0), 0.24))
        assert (request.limits.moved, request.limits.percent) == (5, None)
        assert request.accepts is change.accepts


@cases(
    ("answer", "kind", "reason", "unreachable"),
    {
        "a stale extender": (
            problem(503, "stale since noon", NOT_READY),
            Unanswered.NOT_READY,
            "stale since noon",
            True,
        ),
        "what is not watched": (
            problem(409, "watch workloads", NOT_READY),
            Unanswered.NOT_READY,
            "watch workloads",
            True,
        ),
        "a wrong token": (problem(401), Unanswered.REFUSED, "the extender answered 401: why", True),
        "a proxy": (Answer(502, "", b"<html>"), Unanswered.REFUSED, "answered 502: without a reason", True),
        "an older extender": (problem(404), Unanswered.REFUSED, "has no path /v1/review", True),
        "no extender": (REFUSED, Unanswered.UNREACHABLE, "cannot be reached: refused", True),
        "a policy that is refused": (problem(400), Unanswered.REFUSED, "answered 400: why", False),
        "a policy that is not known": (problem(409), Unanswered.REFUSED, "answered 409: why", False),
        "a large policy": (problem(413), Unanswered.REFUSED, "answered 413: why", False),
        "a policy that breaks a plan": (problem(500), Unanswered.REFUSED, "answered 500: why", False),
        "a busy extender": (problem(503), Unanswered.REFUSED, "answered 503: why", False),
        "another answer": (Answer(200, "OK", b"{}"), Unanswered.INVALID, "cannot be read: id", False),
        "a broken connection": (CUT, Unanswered.TIMEOUT, "did not answer: cut", False),
    },
)
def test_other_answers_are_reasons(answer, kind, reason, unreachable):
    found = source(Scripted(answer)).ask(CHANGE, 60.0)
    assert found.kind is kind
    assert reason in found.reason
    assert found.unreachable is unreachable


def test_a_review_does_not_wait_longer_than_its_time():
    client = Hanging()
    asked = source(client, SystemClock(), timeout_s=0.05, concurrency=1)
    try:
        assert asked.ask(CHANGE, 60.0) == NotComputed(Unanswered.TIMEOUT, "the extender did not answer within 50 ms")
        assert asked.ask(CHANGE, 60.0).kind is Unanswered.BUSY, "the thread of the first question still waits"
        assert asked.ask(CHANGE, 0.01).kind is Unanswered.NO_TIME
    finally:
        client.go_on.set()
    wait_for(lambda: isinstance(asked.ask(CHANGE, 60.0), PolicyImpact), lambda: "the thread is still busy")


def test_a_dead_extender_is_not_asked_until_a_try_succeeds():
    clock, client = FakeClock(), Scripted(*[REFUSED] * (FAILURES + 1), OK)
    asked = source(client, clock)
    kinds = [asked.ask(CHANGE, 60.0).kind for _ in range(FAILURES + 2)]
    assert kinds == [Unanswered.UNREACHABLE] * FAILURES + [Unanswered.BREAKER] * 2
    clock.pass_by(OPEN_S)
    assert asked.ask(CHANGE, 60.0).kind is Unanswered.UNREACHABLE, "one try"
    found = asked.ask(CHANGE, 60.0)
    assert found.kind is Unanswered.BREAKER
    assert "failed 4 times in a row (the extender cannot be reached: refused); retry in 5 s" in found.reason
    clock.pass_by(OPEN_S)
    assert [type(asked.ask(CHANGE, 60.0)) for _ in range(2)] == [PolicyImpact, PolicyImpact]
    assert client.asked == FAILURES + 3


def test_only_one_request_tries_an_open_breaker():
    clock = FakeClock()
    breaker = Breaker(clock)
    for _ in range(FAILURES):
        assert breaker.refusal() is None
        breaker.failed(NotComputed(Unanswered.UNREACHABLE, "x", unreachable=True))
    clock.pass_by(OPEN_S)
    assert [breaker.refusal() is not None for _ in range(3)] == [False, True, True]


def test_a_refusal_keeps_the_breaker_closed():
    asked = source(Scripted(problem(409)))
    kinds = {asked.ask(CHANGE, 60.0).kind for _ in range(FAILURES + 2)}
    assert kinds == {Unanswered.REFUSED}


@cases(
    ("changes", "opens"),
    {
        "one change": ([CHANGE] * (2 * FAILURES), False),
        "dry runs": ([CHANGE._replace(name=f"w{n}", dry_run=True) for n in range(2 * FAILURES)], False),
        "several changes": ([CHANGE._replace(name=f"w{n}") for n in range(FAILURES)], True),
    },
)
def test_slow_answers_open_the_breaker_only_for_several_changes(changes, opens):
    asked = source(Scripted(unanswered("did not answer: read timed out")))
    for each in changes:
        assert asked.ask(each, 60.0).kind is Unanswered.TIMEOUT
    found = asked.ask(CHANGE._replace(author="another"), 60.0)
    assert found.kind is (Unanswered.BREAKER if opens else Unanswered.TIMEOUT)
    assert not found.unreachable, "the gate refuses what a slow extender did not judge"


def test_turns_are_shared_among_users_and_dry_runs():
    turns = Turns(8)
    dry = [CHANGE._replace(author=f"user{n}", dry_run=True) for n in range(4)]
    assert [turns.take(each, 0) for each in (dry[0], dry[0], dry[1], dry[2])] == [True, False, True, False]
    one, another = CHANGE._replace(author="one"), CHANGE._replace(author="another")
    assert [turns.take(one, 0) for _ in range(5)] == [True] * 4 + [False]
    assert [turns.take(another, 0) for _ in range(3)] == [True, True, False]
    turns.give_back(dry[0])
    assert turns.take(another, 0)


def test_a_turn_that_is_given_back_goes_to_one_who_waits():
    turns, took = Turns(1), []
    assert turns.take(CHANGE, 0)
    waiting = threading.Thread(target=lambda: took.append(turns.take(CHANGE, 60)))
    waiting.start()
    turns.give_back(CHANGE)
    waiting.join(60)
    assert took == [True]


def test_metrics_have_results_and_classes_of_sizes():
    metrics = FakeMetrics()
    asked = ExtenderImpact(Scripted(OK, REFUSED), FakeClock(), metrics.answered, timeout_s=30.0)
    asked.ask(CHANGE, 60.0)
    asked.ask(CHANGE, 60.0)
    assert [each[:2] for each in metrics.calls_of("answered")] == [("computed", "1-10"), ("unreachable", "")]


def test_many_clusters_of_a_move_are_counted():
    worst = [{"resource": "r", "leaves": ["m0", "m1"], "moreLeft": 3}]
    assert impact_of(json.dumps({**ANSWER, "worst": worst}).encode()).worst == ("r leaves m0, m1 and 3 more",)


# The client, over sockets.


EMPTY = http_response("200 OK", body=b"{}")


def client_of(server, **files):
    return ExtenderClient(ExtenderAccess(f"http://127.0.0.1:{server.port}", **files), on_failure=lambda _error: None)


def test_requests_share_a_connection_and_carry_the_token(peer, tmp_path):
    server, token = peer(EMPTY), tmp_path / "token"
    token.write_text("0123456789abcdef,webhook\n")
    client = client_of(server, token_file=token)
    assert [client.post(b"{}", 30.0) for _ in range(3)] == [Answer(200, "OK", b"{}")] * 3
    assert server.connections == 1
    assert all("Authorization: Bearer 0123456789abcdef" in head for head in server.heads)
    assert server.heads[0][0] == "POST /v1/review HTTP/1.1"


@cases(
    ("answer", "error"),
    {
        "no answer": (HANG_UP, "Connection aborted"),
        "a huge answer": (http_response("200 OK", body=b"x" * (256 * 2**10 + 1)), "more than 262,144 bytes"),
    },
)
def test_what_cannot_be_read_is_no_answer(peer, answer, error):
    with pytest.raises(UnansweredError, match=error) as found:
        client_of(peer(answer)).post(b"{}", 30.0)
    assert not found.value.unreachable


def test_nothing_listens(peer):
    server = peer(OK.content)
    server.close()
    with pytest.raises(UnansweredError, match="refused") as found:
        client_of(server).post(b"{}", 30.0)
    assert found.value.unreachable


def test_a_missing_file_is_used_once_it_exists(peer, tmp_path):
    server, token = peer(EMPTY), tmp_path / "token"
    client = client_of(server, token_file=token)
    with pytest.raises(UnansweredError, match="credentials cannot be used") as found:
        client.post(b"{}", 30.0)
    assert found.value.unreachable
    token.write_text("0123456789abcdef")
    assert client.post(b"{}", 30.0).status == 200


@pytest.mark.parametrize(
    "url", ["extender:9443", "ftp://extender", "https://extender/path", "https://", "https://a@b", "https://x:99999"]
)
def test_another_address_is_refused(url):
    with pytest.raises(InputError, match="is not an address of a service"):
        ExtenderAccess(url)
