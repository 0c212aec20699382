"""One object must not hide the others: pages shrink, what cannot be read is named, and every list ends."""

import itertools
import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kube_in_memory import KubeInMemory, ScriptedClient
from tables import cases

from berthmaster.kube import listing
from berthmaster.kube.client import ask
from berthmaster.kube.listing import TOO_DEEP, TOO_LARGE, Unread, pages
from berthmaster.kube.requests import Collection
from berthmaster.model.errors import ApiError, UnlistableError

THINGS = Collection.of("example.io/v1", "things")
PATH = f"GET {THINGS.path}"


DEEP = "an object of many levels"
"""Stands for a spec that Python's own encoder cannot write."""


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def server(**contents: object) -> KubeInMemory:
    made = KubeInMemory()
    for name, content in contents.items():
        made.put(THINGS.object(("shop", name)), {"metadata": {"namespace": "shop", "name": name}, "spec": content})
    return made


def limits(api: KubeInMemory) -> list[int]:
    return [int(dict(each.query)["limit"]) for each in api.requests]


def listed(api) -> dict[str, object]:
    """Return what each object of a list is: its spec, or why it is not read."""
    return {
        key[1]: content.problem if isinstance(content, Unread) else json.loads(bytes(content))["spec"]
        for part in pages(lambda request: ask(api, request).replace(json.dumps(DEEP).encode(), nested(20_000)), THINGS)
        for key, content in part.objects
    }


def make_small(patch: pytest.MonkeyPatch) -> None:
    """Set pages of 4,000 bytes, and objects of 2,000."""
    patch.setattr(listing, "MAX_MESSAGE_BYTES", 4000)
    patch.setattr("berthmaster.kube.client.MAX_MESSAGE_BYTES", 4000)
    patch.setattr(listing, "MAX_OBJECT_BYTES", 2000)


@pytest.fixture
def _small_pages(monkeypatch):
    make_small(monkeypatch)


small_pages = pytest.mark.usefixtures("_small_pages")


@small_pages
def test_a_page_that_is_too_large_is_asked_for_with_fewer_objects():
    contents = {f"thing-{number:02}": "x" * 900 for number in range(20)}
    api = server(**contents)
    assert listed(api) == contents
    assert limits(api)[:5] == [500, 125, 31, 7, 1]


@small_pages
def test_pages_grow_again_after_large_objects():
    api = server(a="x" * 1900, b="x" * 1900, c="x" * 1900, **{f"z{number:03}": 1 for number in range(40)})
    assert len(listed(api)) == 43
    assert len(limits(api)) < 16


@small_pages
@cases(
    ("content", "problem"),
    {
        "larger than an object may be": ("x" * 3000, "at most 2000 are read"),
        "larger than a page may be": ("x" * 9000, TOO_LARGE.problem[:14]),
        "nested more deeply than can be decoded": (DEEP, TOO_DEEP.problem),
    },
)
def test_an_object_that_cannot_be_read_is_named_and_hides_no_other(content, problem):
    found = listed(server(a=1, b=content, c=3))
    assert problem in str(found.pop("b"))
    assert found == {"a": 1, "c": 3}


@small_pages
def test_a_server_that_does_not_send_metadata_alone_cannot_name_the_object():
    large = {"metadata": {}, "items": [{"metadata": {"name": "a"}, "spec": "x" * 9000}]}
    with pytest.raises(UnlistableError, match="one of the things cannot be listed"):
        listed(ScriptedClient({PATH: large}))


@cases(
    "items",
    {
        "of one object": [{"metadata": {"name": "a"}}],
        "without objects": [],
        "of the largest number": [{"metadata": {"name": "a"}}] * 500,
    },
)
def test_a_list_ends_although_each_page_names_another(items):
    tokens = map(str, itertools.count())
    client = ScriptedClient({PATH: lambda _: {"metadata": {"continue": next(tokens)}, "items": items}})
    with pytest.raises(UnlistableError, match="more than 1048576 things"):
        for _ in pages(partial(ask, client), THINGS):
            pass
    assert len(client.asked) == 2098


@small_pages
def test_other_errors_are_raised():
    with pytest.raises(ApiError, match="down"):
        listed(ScriptedClient({PATH: ApiError(503, "", "down")}))


@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=4), st.integers(0, 5000), max_size=30))
def test_every_object_is_read_or_named(sizes):
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        found = listed(server(**{name: "x" * size for name, size in sizes.items()}))
    assert found.keys() == sizes.keys()
    for name, size in sizes.items():
        if size < 1500:
            assert found[name] == "x" * size
        if size > 2000:
            assert found[name] != "x" * size
