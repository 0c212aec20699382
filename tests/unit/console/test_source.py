"""The extender as pages ask it: kept answers, what visitors read if there is none, and the namespaces of visitors."""

import threading
from types import SimpleNamespace

import pytest
from console_source import GivenSource
from tables import cases

from berthmaster.model.errors import ServiceError
from berthmaster.native_api.connection import RequestRefusedError, UnansweredError
from berthmaster.native_api.drift import DriftQuery
from berthmaster.native_api.fleet import WorkloadQuery
from berthmaster.native_api.policies import PolicyQuery
from berthmaster.native_api.what_if import PlanRequest
from berthmaster.native_api.wire import HistoryQuery, Problem
from berthmaster.simulation.changes import Scale
from berthmaster.simulation.workload import ResourceName
from berthmaster.views.move_rows import MoveQuery
from console.answer_cache import AnswerCache
from console.source import SourceError, VisibleSource, for_visitors
from console.visitor import Visitor

THEIRS = "vault/Deployment/secret"
VAULT = frozenset({"vault"})
SHOP = Visitor("ada", "token", (), frozenset({"shop"}))


class Extender:
    """Answers with its version, and counts the questions."""

    def __init__(self, version="1"):
        self.version, self.asked = version, 0

    def ask(self):
        self.asked += 1
        return SimpleNamespace(version=self.version, number=self.asked)


def answer(cache, extender, version="1", question="fleet"):
    return cache.answer(question, version, extender.ask, lambda found: found.version).number


@cases(
    ("present", "questions", "numbers"),
    {
        "a question is asked once": ("1", [("1", "fleet"), ("1", "fleet")], [1, 1]),
        "another question": ("1", [("1", "fleet"), ("1", "moves")], [1, 2]),
        "an answer about another version is not kept": ("old", [("1", "fleet"), ("1", "fleet")], [1, 2]),
        "the version is not known": ("1", [("", "fleet"), ("", "fleet")], [1, 2]),
    },
)
def test_answers_are_kept_for_a_question_and_a_version(present, questions, numbers):
    cache, extender = AnswerCache(), Extender(present)
    assert [answer(cache, extender, *each) for each in questions] == numbers


def test_a_new_version_is_asked_about_once():
    cache, extender = AnswerCache(), Extender()
    assert answer(cache, extender) == 1
    extender.version = "2"
    assert [answer(cache, extender, "2"), answer(cache, extender, "2")] == [2, 2]


def test_an_error_is_raised_and_not_kept():
    cache, extender = AnswerCache(), Extender()

    def fail():
        raise ValueError("lost")

    with pytest.raises(ValueError, match="lost"):
        cache.answer("fleet", "1", fail, lambda _found: "1")
    assert answer(cache, extender) == 1


def test_the_answer_that_was_not_used_for_longest_is_forgotten():
    cache, extender = AnswerCache(max_answers=2), Extender()
    for question in ("a", "b", "a", "c"):
        answer(cache, extender, question=question)
    assert answer(cache, extender, question="a") == 1
    assert answer(cache, extender, question="b") == 4


def test_equal_questions_at_one_time_are_asked_once():
    cache, extender = AnswerCache(), Extender()
    asked, release = threading.Event(), threading.Event()

    def slow():
        asked.set()
        assert release.wait(30)
        return extender.ask()

    numbers = []
    threads = [
        threading.Thread(
            target=lambda: numbers.append(cache.answer("fleet", "1", slow, lambda found: found.version).number)
        )
        for _ in range(3)
    ]
    threads[0].start()
    assert asked.wait(30)
    for each in threads[1:]:
        each.start()
    release.set()
    for each in threads:
        each.join(30)
    assert (numbers, extender.asked) == ([1, 1, 1], 1)


@pytest.mark.parametrize(
    ("error", "message", "status"),
    [
        pytest.param(
            RequestRefusedError(Problem("", 404, "there is no binding 'a/b'", "1"), 404),
            "There is no binding 'a/b' (request 1)", 404, id="a refusal",
        ),
        pytest.param(
            UnansweredError("http://h:1", "cannot be reached: connection refused"),
            "The extender at http://h:1 cannot be reached: connection refused", 0, id="a lost extender",
        ),
        pytest.param(
            UnansweredError("http://h:1", "sent an answer that cannot be decoded: is no JSON", 200),
            "The extender at http://h:1 sent an answer that cannot be decoded: is no JSON", 200, id="no JSON",
        ),
        pytest.param(
            ServiceError("the service answered 502 Bad Gateway", 502),
            "The service answered 502 Bad Gateway", 502, id="a proxy",
        ),
        pytest.param(
            UnansweredError("http://h:1", "cannot be reached: the read operation ended", late=True),
            "The extender did not answer in time. Try again later, or ask for less.", 503, id="a slow extender",
        ),
        pytest.param(
            RequestRefusedError(Problem("", 401, "a valid bearer token is required", "1"), 401),
            "The extender does not accept the credentials of the console.", 401, id="credentials of the console",
        ),
    ],
)  # fmt: skip
def test_an_error_is_a_sentence_for_visitors(error, message, status):
    found = for_visitors(error)
    assert (str(found), found.status) == (message, status)


@pytest.mark.parametrize("resource", [THEIRS, "Deployment/secret"])
def test_replicas_of_workloads_in_other_namespaces_are_not_asked_about(resource):
    source = GivenSource()
    with pytest.raises(SourceError, match="You may not list bindings"):
        VisibleSource(source, SHOP).plan(PlanRequest(changes=[Scale(ResourceName.parse(resource), 1)]))
    assert source.asked == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda source, namespace: source.binding("secret-deployment", namespace),
        lambda source, namespace: source.overview("secret-deployment", namespace),
        lambda source, namespace: source.why_not("a", "secret-deployment", namespace),
        lambda source, namespace: source.recorded_decision("1", "secret-deployment", namespace),
        lambda source, namespace: source.history(HistoryQuery(namespace, "Deployment", "secret")),
    ],
)
@pytest.mark.parametrize("namespace", ["vault", ""])
def test_a_question_about_another_namespace_is_not_asked(ask, namespace):
    source = GivenSource()
    with pytest.raises(SourceError, match="You may not list bindings") as raised:
        ask(VisibleSource(source, SHOP), namespace)
    assert (raised.value.status, source.asked) == (403, [])


@cases(
    "ask",
    {
        "workloads": lambda source: source.workloads(WorkloadQuery(q="web", namespaces=VAULT)),
        "policies": lambda source: source.policies(PolicyQuery("web", namespaces=VAULT)),
        "a plan": lambda source: source.plan(PlanRequest(namespaces=VAULT)),
        "moves": lambda source: source.moves(MoveQuery(namespaces=VAULT)),
        "resilience": lambda source: source.resilience(),
        "drift": lambda source: source.drift(DriftQuery("web", namespaces=VAULT)),
        "a binding": lambda source: source.binding("web-deployment", "shop"),
        "an overview": lambda source: source.overview("web-deployment", "shop"),
        "a record": lambda source: source.recorded_decision("1", "web-deployment", "shop"),
        "history": lambda source: source.history(HistoryQuery("shop", "Deployment", "web")),
    },
)
def test_a_question_carries_the_namespaces_of_the_visitor(ask):
    answers = "workloads policies plan moves resilience drift binding overview recorded_decision history"
    source = GivenSource(**dict.fromkeys(answers.split()))
    ask(VisibleSource(source, SHOP))
    ((_, arguments, named),) = source.asked
    carried = [named["namespaces"]] if "namespaces" in named else [each.namespaces for each in arguments]
    assert carried == [SHOP.namespaces]
