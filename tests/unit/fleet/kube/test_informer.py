"""What handlers hear of what an informer holds."""

import json

import msgspec
import pytest
from fake_clock import FakeClock

from fleet.errors import InputError
from fleet.kube.informer import Informer
from fleet.kube.requests import Collection

THINGS = Collection.of("example.io/v1", "things")


def read(raw: bytes) -> int:
    value = json.loads(raw)
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


def test_what_cannot_be_read_leaves_what_was_known(informer, heard, caplog):
    informer.put(("", "a"), raw(1))
    informer.put(("", "a"), raw("x"))
    assert informer.get(("", "a")) == 1
    assert heard == [("a", None, 1)]
    assert "passed over" in caplog.text


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
