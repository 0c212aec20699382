"""Informers and the calls of their handlers."""

import json
from collections import defaultdict

import msgspec
import pytest
from fake_clock import FakeClock
from hypothesis import given
from hypothesis import strategies as st
from tables import cases

from berthmaster.kube import informer as informing
from berthmaster.kube.informer import Informer
from berthmaster.kube.listing import Unread
from berthmaster.kube.requests import Collection
from berthmaster.model.errors import InputError
from berthmaster.runtime.backoff import LONGEST_S

THINGS = Collection.of("example.io/v1", "things")


def read(raw: bytes) -> int:
    value = json.loads(raw)
    if value is None:
        raise KeyError("a bug of the decoder")
    if not isinstance(value, int):
        raise InputError("not a number")
    return value


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


@pytest.fixture
def informer(clock) -> Informer[int]:
    return Informer(THINGS, read, clock)


def recording(informer: Informer[int], *, standby: bool = False) -> list:
    """Return the calls of a new handler."""
    found = []
    informer.subscribe(lambda key, before, after: found.append((key[1], before, after)), standby=standby)
    return found


@pytest.fixture
def calls(informer) -> list:
    return recording(informer)


def test_handlers_get_the_state_before_and_after(informer, calls):
    informer.replace({("", "a"): raw(1), ("", "b"): raw(2)}.items())
    assert informer.listed
    informer.put(("", "a"), raw(3))
    informer.put(("", "a"), raw(3))
    informer.delete(("", "b"))
    informer.delete(("", "b"))
    assert calls == [("a", None, 1), ("b", None, 2), ("a", 1, 3), ("b", 2, None)]
    assert dict(informer.items()) == {("", "a"): 3}


UNREADABLE = [
    pytest.param("x", "WARNING", id="an invalid object"),
    pytest.param(None, "ERROR", id="a bug of the decoder"),
]


@pytest.mark.parametrize(("value", "level"), UNREADABLE)
def test_an_unreadable_object_keeps_its_known_state(informer, calls, caplog, value, level):
    informer.put(("", "a"), raw(1))
    informer.put(("", "a"), raw(value))
    assert informer.get(("", "a")) == 1
    assert calls == [("a", None, 1)]
    (record,) = caplog.records
    assert (record.levelname, record.fields["name"]) == (level, "a")
    assert "skipping an object" in record.message


@pytest.mark.parametrize(("value", "_level"), UNREADABLE)
def test_an_unreadable_object_does_not_affect_the_rest_of_a_list(informer, calls, value, _level):
    informer.put(("", "b"), raw(1))
    informer.replace({("", "a"): raw(value), ("", "b"): raw(value), ("", "c"): raw(2)}.items())
    assert dict(informer.items()) == {("", "b"): 1, ("", "c"): 2}
    assert calls == [("b", None, 1), ("c", None, 2)]


def test_an_object_that_is_not_read_is_named_until_it_is(informer):
    informer.replace([(("", "a"), raw(1)), (("", "b"), Unread("is too large")), (("", "c"), raw("x"))])
    assert informer.unread() == [(("", "b"), "is too large"), (("", "c"), "cannot be decoded: not a number")]
    informer.put(("", "a"), Unread("is too large"))
    informer.put(("", "b"), raw(2))
    informer.delete(("", "c"))
    assert informer.unread() == [(("", "a"), "is too large")]
    assert dict(informer.items()) == {("", "a"): 1, ("", "b"): 2}


def test_the_objects_of_a_full_namespace_do_not_keep_those_of_others_away(informer, monkeypatch):
    monkeypatch.setattr(informing, "MAX_IN_NAMESPACE", 2)
    informer.replace([(("full", str(number)), raw(number)) for number in range(4)] + [(("other", "a"), raw(1))])
    assert [key for key, _ in informer.items()] == [("full", "0"), ("full", "1"), ("other", "a")]
    informer.put(("full", "4"), raw(4))
    informer.put(("other", "b"), raw(1))
    assert [key for key, _ in informer.unread()] == [("full", "2"), ("full", "3"), ("full", "4")]
    assert informer.get(("other", "b")) == 1
    for name in ("0", "2", "3", "4"):
        informer.delete(("full", name))
    informer.put(("full", "5"), raw(5))
    assert informer.get(("full", "5")) == 5


def test_a_muted_informer_calls_no_handler_until_unmute(informer, calls):
    informer.mute()
    informer.replace({("", "a"): raw(1), ("", "b"): raw(2)}.items())
    informer.put(("", "a"), raw(3))
    informer.delete(("", "b"))
    informer.put(("", "c"), raw(4))
    assert calls == []
    assert informer.get(("", "a")) == 3
    informer.unmute()
    assert sorted(calls) == [("a", None, 3), ("c", None, 4)]
    informer.unmute()
    informer.put(("", "a"), raw(5))
    assert calls[2:] == [("a", 3, 5)]


def test_a_standby_calls_some_handlers_and_a_leader_calls_the_others_for_all_objects(informer, calls):
    kept = recording(informer, standby=True)
    informer.mute()
    informer.replace({("", "a"): raw(1)}.items())
    assert kept == []
    informer.unmute(standby=True)
    informer.put(("", "a"), raw(2))
    assert kept == [("a", None, 1), ("a", 1, 2)]
    assert calls == []
    informer.unmute()
    informer.put(("", "a"), raw(3))
    assert calls == [("a", None, 2), ("a", 2, 3)]
    assert kept[2:] == [("a", 2, 3)], "not once more for the leader"


def test_stale_since_is_the_time_of_the_first_problem(informer, clock):
    began = clock.now()
    informer.mark_stale("no response")
    clock.pass_by(5)
    informer.mark_stale("still no response")
    assert (informer.problem, informer.stale_since) == ("still no response", began)
    informer.mark_fresh()
    assert (informer.problem, informer.stale_since) == ("", None)


def test_a_list_is_stored_completely_before_handlers_are_called(informer):
    seen = []
    informer.subscribe(lambda *_: seen.append((dict(informer.items()), informer.listed)))
    informer.replace({("", "a"): raw(1), ("", "b"): raw(2)}.items())
    assert seen == [({("", "a"): 1, ("", "b"): 2}, False)] * 2
    assert informer.listed


def test_contact_callbacks_run_once_after_a_list_and_when_contact_is_lost(informer):
    seen = []
    informer.subscribe(lambda key, *_: seen.append(key[1]))
    informer.on_contact(lambda: seen.append(informer.problem or "contact"))
    informer.replace({("", "a"): raw(1), ("", "b"): raw(2)}.items())
    informer.mark_fresh()
    informer.mark_stale("no response")
    informer.mark_fresh()
    assert seen == ["a", "b", "contact", "no response", "contact"]


class Fragile:
    """A handler that raises for each object for which ``broken`` returns true."""

    def __init__(self) -> None:
        self.broken = lambda _name: True
        self.calls: list[tuple[str, int | None, int | None]] = []
        self.tries = 0

    def __call__(self, key, before, after) -> None:
        self.tries += 1
        if self.broken(key[1]):
            raise ZeroDivisionError
        self.calls.append((key[1], before, after))


@pytest.fixture
def fragile(informer, calls) -> Fragile:  # noqa: ARG001 - there is a handler before this one
    made = Fragile()
    informer.subscribe(made)
    return made


@pytest.fixture
def later(informer, fragile) -> list:  # noqa: ARG001 - it comes after that one
    return recording(informer)


def put(name: str, value: int):
    return lambda informer: informer.put(("", name), raw(value))


def delete(name: str):
    return lambda informer: informer.delete(("", name))


def listed(**values: int):
    return lambda informer: informer.replace({("", name): raw(value) for name, value in values.items()}.items())


A_1 = [("a", None, 1)]


@pytest.mark.parametrize(
    ("known", "missed", "delivered_later"),
    [
        pytest.param([], [put("a", 1)], [("a", None, 1)], id="a new object"),
        pytest.param([put("a", 1)], [put("a", 2)], [("a", 1, 2)], id="a changed object"),
        pytest.param([put("a", 1)], [delete("a")], [("a", 1, None)], id="a deleted object"),
        pytest.param([put("a", 1)], [put("a", 2), put("a", 3), put("a", 4)], [("a", 1, 4)],
                     id="several changes of an object become one"),
        pytest.param([put("a", 1)], [delete("a"), put("a", 2)], [("a", 1, 2)],
                     id="an object that was deleted and created again has changed"),
        pytest.param([put("a", 1)], [put("a", 2), delete("a")], [("a", 1, None)],
                     id="an object that was changed and deleted is deleted"),
        pytest.param([], [put("a", 1), delete("a")], [], id="an object that was created and deleted"),
        pytest.param([put("a", 1)], [put("a", 2), put("a", 1)], [], id="an object that was changed back"),
        pytest.param([put("a", 1), put("b", 1)], [put("b", 2), delete("a"), put("c", 3)],
                     [("b", 1, 2), ("a", 1, None), ("c", None, 3)], id="objects keep their order"),
        pytest.param([listed(a=1, b=1, c=1)], [listed(b=2, c=1, d=4)],
                     [("a", 1, None), ("b", 1, 2), ("d", None, 4)], id="the changes of a list are delivered again"),
    ],
)  # fmt: skip
def test_a_handler_that_raises_is_called_again_and_other_handlers_are_not_affected(
    informer, calls, fragile, later, known, missed, delivered_later
):
    fragile.broken = lambda _name: False
    for step in known:
        step(informer)
    informer.mark_fresh()
    fragile.broken = lambda _name: True
    fragile.calls.clear()
    for step in missed:
        step(informer)
    assert fragile.calls == []
    assert informer.undelivered == len(delivered_later)
    fragile.broken = lambda _name: False
    informer.mark_fresh()
    assert fragile.calls == delivered_later
    assert informer.undelivered == 0
    informer.mark_fresh()
    assert fragile.calls == delivered_later, "no more than once"
    assert calls == later
    assert len(calls) >= len(delivered_later)


@cases("key", {"namespaced": ("shop", "a"), "cluster-scoped": ("", "a")})
def test_a_crash_of_a_handler_is_logged_with_the_object_and_the_traceback(informer, fragile, caplog, key):
    informer.put(key, raw(1))
    [record] = caplog.records
    assert record.fields == {"kind": "things", "namespace": key[0], "name": key[1]}
    assert record.levelname == "ERROR"
    assert record.exc_info[0] is ZeroDivisionError
    assert fragile.calls == []


def test_a_crash_for_one_object_does_not_affect_other_objects(informer, fragile):
    fragile.broken = lambda name: name == "a"
    informer.replace({("", "a"): raw(1), ("", "b"): raw(2)}.items())
    informer.put(("", "b"), raw(3))
    informer.mark_fresh()
    assert fragile.calls == [("b", None, 2), ("b", 2, 3)]
    assert not informer.problem, "contact to the server is not lost"


def test_the_next_change_of_an_object_is_delivered_together_with_the_undelivered_one(informer, fragile):
    informer.put(("", "a"), raw(1))
    fragile.broken = lambda _name: False
    informer.put(("", "a"), raw(2))
    assert fragile.calls == [("a", None, 2)]
    assert informer.undelivered == 0


def test_a_handler_that_keeps_crashing_is_retried_with_backoff_for_ever(informer, clock, fragile):
    informer.put(("", "a"), raw(1))
    informer.mark_fresh()
    assert fragile.tries == 2, "the first retry is immediate"
    for _ in range(10_000):
        clock.pass_by(0.1)
        informer.mark_fresh()
    assert 1000 / LONGEST_S <= fragile.tries <= 2 * 1000 / LONGEST_S + 10
    fragile.broken = lambda _name: False
    clock.pass_by(LONGEST_S)
    informer.mark_fresh()
    assert fragile.calls == A_1


def test_undelivered_changes_are_bounded_and_the_oldest_is_dropped(informer, fragile, monkeypatch, caplog):
    monkeypatch.setattr(informing, "MAX_UNDELIVERED", 2)
    for name in "abc":
        informer.put(("", name), raw(1))
    assert informer.undelivered == 2
    assert [record.fields["name"] for record in caplog.records if "a change is lost" in record.message] == ["a"]
    fragile.broken = lambda _name: False
    informer.mark_fresh()
    assert fragile.calls == [("b", None, 1), ("c", None, 1)]


def test_a_crash_during_unmute_is_retried(informer, fragile):
    informer.mute()
    informer.replace({("", "a"): raw(1)}.items())
    informer.unmute()
    fragile.broken = lambda _name: False
    informer.mark_fresh()
    assert fragile.calls == A_1


NAMES = st.sampled_from("abc")
STEPS = st.one_of(
    st.builds(put, NAMES, st.integers(0, 2)),
    st.builds(delete, NAMES),
    st.dictionaries(NAMES, st.integers(0, 2)).map(lambda values: listed(**values)),
    st.floats(0, 40),
    st.just(Informer.mark_fresh),
)


@given(st.lists(st.tuples(STEPS, st.sets(NAMES)), max_size=30))
def test_the_successful_calls_for_an_object_form_a_chain_that_ends_with_its_state(steps):
    clock = FakeClock()
    informer = Informer(THINGS, read, clock)
    fragile, sound = Fragile(), Fragile()
    sound.broken = lambda _name: False
    informer.subscribe(fragile)
    informer.subscribe(sound)
    for step, broken in steps:
        fragile.broken = broken.__contains__
        if isinstance(step, float):
            clock.pass_by(step)
        else:
            step(informer)
        assert informer.undelivered <= len("abc")
    fragile.broken = lambda _name: False
    clock.pass_by(LONGEST_S)
    informer.mark_fresh()
    assert informer.undelivered == 0
    for handler in (fragile, sound):
        latest: dict[str, int | None] = defaultdict(lambda: None)
        for name, before, after in handler.calls:
            assert before == latest[name]
            assert before != after
            latest[name] = after
        assert {("", name): value for name, value in latest.items() if value is not None} == dict(informer.items())
