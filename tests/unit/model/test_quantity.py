from decimal import ROUND_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.model.errors import InputError
from berthmaster.model.quantity import Quantity

MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        pytest.param("0", 0, id="zero"),
        pytest.param("1", 10**9, id="a plain integer"),
        pytest.param("+1", 10**9, id="a plus sign"),
        pytest.param("-1", -(10**9), id="a minus sign"),
        pytest.param("-0", 0, id="a negative zero is zero"),
        pytest.param("1n", 1, id="nano"),
        pytest.param("1u", 10**3, id="micro"),
        pytest.param("1m", 10**6, id="milli"),
        pytest.param("1k", 10**12, id="kilo is a small k"),
        pytest.param("1M", 10**15, id="mega"),
        pytest.param("1G", 10**18, id="giga"),
        pytest.param("1T", 10**21, id="tera"),
        pytest.param("1P", 10**24, id="peta"),
        pytest.param("1E", 10**27, id="an E without digits is exa"),
        pytest.param("1Ki", 2**10 * 10**9, id="kibi"),
        pytest.param("1Mi", 2**20 * 10**9, id="mebi"),
        pytest.param("1Gi", 2**30 * 10**9, id="gibi"),
        pytest.param("1Ti", 2**40 * 10**9, id="tebi"),
        pytest.param("1Pi", 2**50 * 10**9, id="pebi"),
        pytest.param("1Ei", 2**60 * 10**9, id="exbi"),
        pytest.param("12e3", 12 * 10**12, id="a small exponent"),
        pytest.param("12E3", 12 * 10**12, id="a capital exponent"),
        pytest.param("12e+3", 12 * 10**12, id="an exponent with a plus sign"),
        pytest.param("12e-3", 12 * 10**6, id="a negative exponent"),
        pytest.param("1.5", 15 * 10**8, id="a fraction"),
        pytest.param("1.5Gi", 3 * 2**29 * 10**9, id="a fraction of a binary suffix"),
        pytest.param(".5", 5 * 10**8, id="no digits before the point"),
        pytest.param("5.", 5 * 10**9, id="no digits after the point"),
        pytest.param("0.0000000001", 1, id="finer than a nano rounds up"),
        pytest.param("-0.0000000001", -1, id="finer than a nano rounds away from zero"),
        pytest.param("1.1n", 2, id="a fraction of a nano rounds up"),
        pytest.param("0.0001Ki", 102_400_000, id="a small part of a kibi"),
        pytest.param("9223372036854775807", MAX * 10**9, id="the largest int64"),
        pytest.param("9223372036854775808", MAX * 10**9, id="one more saturates"),
        pytest.param("8Ei", MAX * 10**9, id="eight exbi saturate"),
        pytest.param("-100E", -MAX * 10**9, id="a negative amount saturates"),
        pytest.param("1e999999999999", MAX * 10**9, id="a huge exponent saturates"),
        pytest.param("1e-999999999999", 1, id="a tiny amount rounds up to one nano"),
        pytest.param("0e999999999999", 0, id="zero stays zero at any exponent"),
    ],
)
def test_parse(text, nanos):
    quantity = Quantity.parse(text)
    assert quantity.nanos == nanos
    assert quantity.text == text


@pytest.mark.parametrize(
    "text",
    [
        "", "+", ".", "m", "1 ", " 1", "1K", "1ki", "1mi", "1kB", "1e", "1e1.5", "1e3m", "1.2.3", "--1",
        "0x10", "1_000", "one", "1m\n", "٣", "1" * 257,
    ],
    ids=repr,
)  # fmt: skip
def test_invalid_quantities_are_errors(text):
    with pytest.raises(InputError, match="is not a quantity; accepted are"):
        Quantity.parse(text)


@pytest.mark.parametrize(
    ("raw", "nanos"),
    [
        pytest.param(3, 3 * 10**9, id="an integer"),
        pytest.param(0.1, 10**8, id="a float is read exactly"),
        pytest.param(1e21, MAX * 10**9, id="a float with an exponent"),
        pytest.param(1e-7, 100, id="a float with a negative exponent"),
    ],
)
def test_parse_numbers(raw, nanos):
    assert Quantity.parse(raw).nanos == nanos


@pytest.mark.parametrize("raw", [float("nan"), float("inf")], ids=repr)
def test_invalid_numbers_are_errors(raw):
    with pytest.raises(InputError):
        Quantity.parse(raw)


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        pytest.param("100m", 1, 100, id="a part of one is one"),
        pytest.param("-100m", -1, -100, id="away from zero on both sides"),
        pytest.param("1001m", 2, 1001, id="a little more than one is two"),
        pytest.param("1u", 1, 1, id="a part of a thousandth is a thousandth"),
        pytest.param("2", 2, 2000, id="whole numbers stay"),
        pytest.param("8E", 8 * 10**18, MAX, id="thousandths saturate"),
        pytest.param("-8E", -8 * 10**18, -MAX - 1, id="thousandths saturate below zero"),
    ],
)
def test_rounds_away_from_zero(text, value, milli):
    quantity = Quantity.parse(text)
    assert (quantity.value(), quantity.milli_value()) == (value, milli)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("0Mi", "0"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("1Ki", "1Ki"),
        ("1024Ki", "1Mi"),
        ("1536Mi", "1536Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("0.5Ki", "512"),
        ("1000Ki", "1000Ki"),
        ("1e3", "1e3"),
        ("12E6", "12e6"),
        ("100e3", "100e3"),
        ("1e1", "10"),
        ("1e-3", "1e-3"),
        ("1E", "1E"),
        ("-1.5", "-1500m"),
        ("1.5n", "2n"),
    ],
)
def test_canonical_text(text, canonical):
    assert Quantity.parse(text).canonical() == canonical


@pytest.mark.parametrize(
    ("first", "second", "total"),
    [
        pytest.param("1", "500m", "1500m", id="decimal"),
        pytest.param("1Gi", "512Mi", "1536Mi", id="binary"),
        pytest.param("1Gi", "1G", "2073741824", id="the format of the first, without a suffix that divides the sum"),
        pytest.param("0", "1Gi", "1Gi", id="zero does not set the format"),
        pytest.param("1", "-1", "0", id="the sum is zero"),
        pytest.param("8E", "8E", "9223372036854775807", id="saturating"),
    ],
)
def test_sums_keep_the_format(first, second, total):
    assert (Quantity.parse(first) + Quantity.parse(second)).text == total


def test_equal_amounts_are_equal_in_any_format():
    assert Quantity.parse("1Gi") == Quantity.parse("1024Mi")
    assert len({Quantity.parse("1"), Quantity.parse("1000m")}) == 1
    assert Quantity.parse("1") != "1"


SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "e-6", "E2"]
TEXTS = st.builds(
    lambda sign, number, suffix: f"{sign}{number}{suffix}",
    st.sampled_from(["", "-", "+"]),
    st.decimals(min_value=0, max_value=10**6, places=6).map(lambda number: f"{number:f}"),
    st.sampled_from(SUFFIXES),
)


@given(TEXTS)
def test_canonical_text_keeps_the_amount_and_is_stable(text):
    quantity = Quantity.parse(text)
    again = Quantity.parse(quantity.canonical())
    assert again == quantity
    assert again.canonical() == quantity.canonical()


@given(TEXTS)
def test_the_value_is_the_exact_amount_rounded_away_from_zero(text):
    quantity = Quantity.parse(text)
    exact = Decimal(quantity.nanos).scaleb(-9)
    assert quantity.value() == exact.to_integral_value(ROUND_UP)
    assert abs(quantity.value()) >= abs(exact)


@given(TEXTS, TEXTS)
def test_sums_are_exact_and_do_not_depend_on_the_order(first, second):
    left, right = Quantity.parse(first), Quantity.parse(second)
    assert (left + right).nanos == (right + left).nanos == left.nanos + right.nanos
    assert Quantity.parse((left + right).text) == left + right


@given(TEXTS, TEXTS)
def test_the_larger_of_two_is_the_one_with_the_larger_amount(first, second):
    left, right = Quantity.parse(first), Quantity.parse(second)
    assert max(left, right).nanos == max(left.nanos, right.nanos)
