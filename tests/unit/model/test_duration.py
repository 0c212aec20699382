import pytest
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.model.duration import MAX_DURATION_S, duration_text, parse_duration_s
from berthmaster.model.errors import InputError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("0s", 0), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("24h", 86400), ("1h1m1s", 3661)],
)
def test_a_duration_is_read_in_seconds(text, seconds):
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "1d", "-1s", "1.5h", "10 m", "m", "1s1h", "8785h", "99999999h", "1ms"])
def test_another_text_is_an_error_that_shows_the_text(text):
    with pytest.raises(InputError, match="accepted are") as error:
        parse_duration_s(text)
    assert text in str(error.value)


@given(st.integers(0, MAX_DURATION_S))
def test_the_text_of_a_duration_is_read_as_the_same_duration(seconds):
    assert parse_duration_s(duration_text(seconds)) == seconds
