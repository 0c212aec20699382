"""What handlers hear of what an informer holds."""

import json
from collections import defaultdict

import msgspec
import pytest
from fake_clock import FakeClock
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.kube import informer as informing
from berthmaster.kube.informer import Informer
from berthmaster.kube.requests import Collection
from berthmaster.model.errors import InputError
from berthmaster.runtime.backoff import LONGEST_S

THINGS = Collection.of("example.io/v1", "things")


def read(raw: bytes) -> int:
    value = json.loads(raw)
    if value is None:
        raise KeyError("nobody thought of this")
    if not isinstance(value, int):
        raise InputError("no number")
    return value


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


@pytest.fixture
def informer() -> Informer[int]:
    return Informer(THINGS, read, FakeClock())


@pytest.fixture
def heard(informer) -> list:
    found = []
    informer.subscribe(lambda key, before, after: found.append((key[1], before, after)))
    return found


def test_changes_are_told_with_what_was_before(informer, heard):
    informer.replace({("", "a"): raw(1), ("", "b"): raw(2)})
    assert informer.listed
    informer.put(("", "a"), raw(3))
    informer.put(("", "a"), raw(3))
    informer.drop(("", "b"))
    informer.drop(("", "b"))
    assert heard == [("a", None, 1), ("b", None, 2), ("a", 1, 3), ("b", 2, None)]
    assert dict(informer.items()) == {("", "a"): 3}


def test_a_list_anew_tells_what_has_changed_meanwhile(informer, heard):
    informer.replace({("", "a"): raw(1), ("", "b"): raw(2), ("", "c"): raw(3)})
    heard.clear()
    informer.replace({("", "b"): raw(2), ("", "c"): raw(4), ("", "d"): raw(5)})
    assert heard == [("a", 1, None), ("c", 3, 4), ("d", None, 5)]


UNREADABLE = [
    pytest.param("x", "WARNING", id="because something is wrong with it"),
    pytest.param(None, "ERROR", id="because something is wrong with what reads it"),
]


@pytest.mark.parametrize(("value", "level"), UNREADABLE)
def test_what_cannot_be_read_leaves_what_was_known(informer, heard, caplog, value, level):
    informer.put(("", "a"), raw(1))
    informer.put(("", "a"), raw(value))
    assert informer.get(("", "a")) == 1
    assert heard == [("a", None, 1)]
    (record,) = caplog.records
    assert (record.levelname, record.fields["name"]) == (level, "a")
    assert "passed over" in record.message


@pytest.mark.parametrize(("value", "_level"), UNREADABLE)
def test_what_cannot_be_read_keeps_nothing_else_of_a_list_away(informer, heard, value, _level):
    informer.put(("", "b"), raw(1))
    informer.replace({("", "a"): raw(value), ("", "b"): raw(value), ("", "c"): raw(2)})
    assert dict(informer.items()) == {("", "b"): 1, ("", "c"): 2}
    assert heard == [("b", None, 1), ("c", None, 2)]


def test_muted_it_knows_everything_and_tells_nothing_until_it_may(informer, heard):
    informer.mute()
    informer.replace({("", "a"): raw(1), ("", "b"): raw(2)})
    informer.put(("", "a"), raw(3))
    informer.drop(("", "b"))
    informer.put(("", "c"), raw(4))
    assert heard == []
    assert informer.get(("", "a")) == 3
    informer.unmute()
    assert sorted(heard) == [("a", None, 3), ("c", None, 4)]
    informer.unmute()
    informer.put(("", "a"), raw(5))
    assert heard[2:] == [("a", 3, 5)]


def test_it_says_since_when_it_is_lost(informer):
    clock = informer._clock
    lost_at = clock.now()
    informer.lose("nobody answers")
    clock.pass_by(5)
    informer.lose("nobody answers yet")
    assert (informer.problem, informer.lost_at) == ("nobody answers yet", lost_at)
    informer.confirm()
    assert (informer.problem, informer.lost_at) == ("", None)


def test_a_list_is_there_as_a_whole_before_anybody_is_told_of_it(informer):
    seen = []
    informer.subscribe(lambda *_: seen.append((dict(informer.items()), informer.listed)))
    informer.replace({("", "a"): raw(1), ("", "b"): raw(2)})
    assert seen == [({("", "a"): 1, ("", "b"): 2}, False)] * 2
    assert informer.listed


def test_a_follower_is_called_once_for_all_that_a_list_brings_and_when_the_server_is_lost(informer):
    seen = []
    informer.subscribe(lambda key, *_: seen.append(key[1]))
    informer.follow(lambda: seen.append(informer.problem or "heard"))
    informer.replace({("", "a"): raw(1), ("", "b"): raw(2)})
    informer.confirm()
    informer.lose("nobody answers")
    informer.confirm()
    assert seen == ["a", "b", "heard", "nobody answers", "heard"]


class Fragile:
    """A handler that raises as long as ``broken`` says so of an object."""

    def __init__(self) -> None:
        self.broken = lambda _name: True
        self.heard: list[tuple[str, int | None, int | None]] = []
        self.tries = 0

    def __call__(self, key, before, after) -> None:
        self.tries += 1
        if self.broken(key[1]):
            raise ZeroDivisionError
        self.heard.append((key[1], before, after))


@pytest.fixture
def fragile(informer, heard) -> Fragile:  # noqa: ARG001 - there is a handler before it
    made = Fragile()
    informer.subscribe(made)
    return made


@pytest.fixture
def later(informer, fragile) -> list:  # noqa: ARG001 - it is behind that one
    found = []
    informer.subscribe(lambda key, before, after: found.append((key[1], before, after)))
    return found


def put(name: str, value: int):
    return lambda informer: informer.put(("", name), raw(value))


def drop(name: str):
    return lambda informer: informer.drop(("", name))


def listed(**values: int):
    return lambda informer: informer.replace({("", name): raw(value) for name, value in values.items()})


A_1 = [("a", None, 1)]


@pytest.mark.parametrize(
    ("known", "missed", "told_later"),
    [
        pytest.param([], [put("a", 1)], [("a", None, 1)], id="it is told of what is new"),
        pytest.param([put("a", 1)], [put("a", 2)], [("a", 1, 2)], id="it is told of what has changed"),
        pytest.param([put("a", 1)], [drop("a")], [("a", 1, None)], id="it is told of what is gone"),
        pytest.param([put("a", 1)], [put("a", 2), put("a", 3), put("a", 4)], [("a", 1, 4)],
                     id="several changes of an object become one from what it heard last"),
        pytest.param([put("a", 1)], [drop("a"), put("a", 2)], [("a", 1, 2)],
                     id="what was made anew meanwhile has changed for it"),
        pytest.param([put("a", 1)], [put("a", 2), drop("a")], [("a", 1, None)],
                     id="what has changed and gone is gone for it"),
        pytest.param([], [put("a", 1), drop("a")], [], id="what came and went is nothing to it"),
        pytest.param([put("a", 1)], [put("a", 2), put("a", 1)], [], id="what is again as it was is nothing to it"),
        pytest.param([put("a", 1), put("b", 1)], [put("b", 2), drop("a"), put("c", 3)],
                     [("b", 1, 2), ("a", 1, None), ("c", None, 3)], id="objects keep their order"),
        pytest.param([listed(a=1, b=1, c=1)], [listed(b=2, c=1, d=4)],
                     [("a", 1, None), ("b", 1, 2), ("d", None, 4)], id="all that a list has brought is told again"),
    ],
)  # fmt: skip
def test_a_handler_that_raises_is_told_again_and_the_others_do_not_notice(
    informer, heard, fragile, later, known, missed, told_later
):
    fragile.broken = lambda _name: False
    for step in known:
        step(informer)
    informer.confirm()
    fragile.broken = lambda _name: True
    fragile.heard.clear()
    for step in missed:
        step(informer)
    assert fragile.heard == []
    assert informer.owed == len(told_later)
    fragile.broken = lambda _name: False
    informer.confirm()
    assert fragile.heard == told_later
    assert informer.owed == 0
    informer.confirm()
    assert fragile.heard == told_later, "no more than once"
    assert heard == later
    assert len(heard) >= len(told_later)


@pytest.mark.parametrize("key", [("shop", "a"), ("", "a")], ids=["in a namespace", "without one"])
def test_what_a_handler_failed_at_is_logged_with_its_kind_its_name_and_why(informer, fragile, caplog, key):
    informer.put(key, raw(1))
    [record] = caplog.records
    assert record.fields == {"kind": "things", "namespace": key[0], "name": key[1]}
    assert record.levelname == "ERROR"
    assert record.exc_info[0] is ZeroDivisionError
    assert fragile.heard == []


def test_one_object_that_a_handler_fails_at_holds_up_no_other(informer, fragile):
    fragile.broken = lambda name: name == "a"
    informer.replace({("", "a"): raw(1), ("", "b"): raw(2)})
    informer.put(("", "b"), raw(3))
    informer.confirm()
    assert fragile.heard == [("b", None, 2), ("b", 2, 3)]
    assert not informer.problem, "the server is not lost"


def test_the_next_change_of_the_same_object_is_told_at_once_together_with_what_is_owed(informer, fragile):
    informer.put(("", "a"), raw(1))
    fragile.broken = lambda _name: False
    informer.put(("", "a"), raw(2))
    assert fragile.heard == [("a", None, 2)]
    assert informer.owed == 0


def test_a_handler_that_keeps_failing_is_tried_ever_more_rarely_but_for_good(informer, fragile):
    clock = informer._clock
    informer.put(("", "a"), raw(1))
    informer.confirm()
    assert fragile.tries == 2, "once more at once"
    for _ in range(10_000):
        clock.pass_by(0.1)
        informer.confirm()
    assert 1000 / LONGEST_S <= fragile.tries <= 2 * 1000 / LONGEST_S + 10
    fragile.broken = lambda _name: False
    clock.pass_by(LONGEST_S)
    informer.confirm()
    assert fragile.heard == A_1


def test_what_is_owed_is_bounded_and_the_oldest_is_given_up(informer, fragile, monkeypatch, caplog):
    monkeypatch.setattr(informing, "MAX_OWED", 2)
    for name in "abc":
        informer.put(("", name), raw(1))
    assert informer.owed == 2
    assert [record.fields["name"] for record in caplog.records if "given up" in record.message] == ["a"]
    fragile.broken = lambda _name: False
    informer.confirm()
    assert fragile.heard == [("b", None, 1), ("c", None, 1)]


def test_failing_while_a_leader_begins_ends_nobody(informer, fragile):
    informer.mute()
    informer.replace({("", "a"): raw(1)})
    informer.unmute()
    fragile.broken = lambda _name: False
    informer.confirm()
    assert fragile.heard == A_1


NAMES = st.sampled_from("abc")
STEPS = st.one_of(
    st.builds(put, NAMES, st.integers(0, 2)),
    st.builds(drop, NAMES),
    st.dictionaries(NAMES, st.integers(0, 2)).map(lambda values: listed(**values)),
    st.floats(0, 40).map(lambda seconds: lambda informer: informer._clock.pass_by(seconds)),
    st.just(Informer.confirm),
)


@given(st.lists(st.tuples(STEPS, st.sets(NAMES)), max_size=30))
def test_calls_that_came_back_are_a_chain_for_each_object_that_ends_with_what_there_is(steps):
    informer = Informer(THINGS, read, FakeClock())
    fragile, sound = Fragile(), Fragile()
    sound.broken = lambda _name: False
    informer.subscribe(fragile)
    informer.subscribe(sound)
    for step, broken in steps:
        fragile.broken = broken.__contains__
        step(informer)
        assert informer.owed <= len("abc")
    fragile.broken = lambda _name: False
    informer._clock.pass_by(LONGEST_S)
    informer.confirm()
    assert informer.owed == 0
    for handler in (fragile, sound):
        latest: dict[str, int | None] = defaultdict(lambda: None)
        for name, before, after in handler.heard:
            assert before == latest[name]
            assert before != after
            latest[name] = after
        assert {("", name): value for name, value in latest.items() if value is not None} == dict(informer.items())
