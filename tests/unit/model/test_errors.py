import pytest
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.model.errors import (
    MAX_MESSAGE_LENGTH,
    ApiError,
    BerthmasterError,
    FieldError,
    InputError,
    ManifestError,
    printable,
    shown,
)

TEXTS = st.text(st.characters(), max_size=12)  # with control characters and lone surrogates


@given(TEXTS, TEXTS)
def test_messages_are_one_printable_line_of_any_text(one, other):
    for error in (
        InputError(one),
        FieldError(one, other).below(other),
        ManifestError(one, 1, other, other),
        ApiError(500, "", one),
    ):
        assert str(error).isprintable()
        str(error).encode()
    assert printable(printable(one)) == printable(one)
    assert shown(one).isprintable()


@pytest.mark.parametrize(
    ("text", "shown_text"),
    [
        pytest.param("plain", "plain", id="plain text"),
        pytest.param("größe: 5 µs … ok", "größe: 5 µs … ok", id="printable letters of any script"),
        pytest.param("a\nb\tc\r", "a\\nb\\tc\\r", id="line ends and tabs"),
        pytest.param("\x1b[31mred\x9b1m", "\\x1b[31mred\\x9b1m", id="escape sequences in both forms"),
        pytest.param("a\u202eb\u200b", "a\\u202eb\\u200b", id="characters that reorder or hide text"),
        pytest.param("\udc80\ud800", "\ufffd\ufffd", id="lone surrogates"),
    ],
)
def test_printable_text(text, shown_text):
    assert printable(text) == str(BerthmasterError(text)) == shown_text


def test_long_messages_are_cut():
    assert len(str(FieldError("p" * 10_000, "x" * 10_000))) == MAX_MESSAGE_LENGTH
    assert len(FieldError("p" * 10_000, "x").path) == 512
    assert shown("x" * 10_000).endswith("…")
    assert len(shown("x" * 10_000)) == 80
