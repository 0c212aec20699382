"""Parameters of addresses: what is accepted, and what the error says."""

import pytest
from werkzeug.datastructures import MultiDict

from console.query import PageQuery, QueryError


def query(*pairs):
    return PageQuery(MultiDict(pairs))


def test_absent_parameters_have_their_defaults():
    found = query()
    assert (found.text("q"), found.choice("view", ("tiles",), "tiles"), found.choices("only", ("a",))) == (
        "",
        "tiles",
        (),
    )
    assert (found.sort(("name",), "name"), found.page()) == ("name", 1)


def test_several_words_may_be_repeated_or_listed():
    assert query(("only", "a,b"), ("only", "b"), ("only", "")).choices("only", ("a", "b")) == ("a", "b")


def test_a_sort_may_be_descending():
    assert query(("sort", "-name")).sort(("name",)) == "-name"


@pytest.mark.parametrize(
    ("parameter", "ask", "problem"),
    [
        (("q", "x" * 513), lambda found: found.text("q"), "is longer than 512 characters"),
        (("view", "list"), lambda found: found.choice("view", ("tiles", "table"), ""), "accepted: tiles, table"),
        (("only", "a,c"), lambda found: found.choices("only", ("a", "b")), "only: 'c' is not accepted; accepted: a, b"),
        (("sort", "--name"), lambda found: found.sort(("name",)), "accepted: name, each also with a leading -"),
        (("page", "0"), lambda found: found.page(), "page: '0' is not a number from 1 to 1,000,000"),
        (("page", "²"), lambda found: found.page(), "is not a number from 1"),
    ],
)
def test_an_invalid_value_is_named_with_what_is_accepted(parameter, ask, problem):
    with pytest.raises(QueryError) as raised:
        ask(query(parameter))
    assert problem in str(raised.value)
    assert str(raised.value).startswith(f"{parameter[0]}: '")
