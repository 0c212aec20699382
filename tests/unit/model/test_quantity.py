"""Quantities, durations and bounds."""

import re
from decimal import ROUND_UP, Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import cases, data

from berthmaster.model.decode import convert
from berthmaster.model.durations import MAX_DURATION_S, duration_text, parse_duration_s
from berthmaster.model.errors import InputError
from berthmaster.model.kubeadmiral.limits import kubeadmiral_excess
from berthmaster.model.kubeadmiral.policies import KubeAdmiralSpec
from berthmaster.model.placement import Placement
from berthmaster.model.placement_limits import (
    DEFAULT_LIMITS,
    LIMIT_NAMES,
    MAX_LIMIT,
    PlacementLimits,
    placement_excess,
    policy_excess,
)
from berthmaster.model.policy import Policy
from berthmaster.model.quantity import Quantity

MAX = 2**63 - 1


@cases(
    ("text", "nanos"),
    {
        "zero": ("0", 0),
        "a plain integer": ("1", 10**9),
        "a plus sign": ("+1", 10**9),
        "a minus sign": ("-1", -(10**9)),
        "a negative zero is zero": ("-0", 0),
        "nano": ("1n", 1),
        "micro": ("1u", 10**3),
        "milli": ("1m", 10**6),
        "kilo is a small k": ("1k", 10**12),
        "mega": ("1M", 10**15),
        "giga": ("1G", 10**18),
        "tera": ("1T", 10**21),
        "peta": ("1P", 10**24),
        "an E without digits is exa": ("1E", 10**27),
        "kibi": ("1Ki", 2**10 * 10**9),
        "mebi": ("1Mi", 2**20 * 10**9),
        "gibi": ("1Gi", 2**30 * 10**9),
        "tebi": ("1Ti", 2**40 * 10**9),
        "pebi": ("1Pi", 2**50 * 10**9),
        "exbi": ("1Ei", 2**60 * 10**9),
        "a small exponent": ("12e3", 12 * 10**12),
        "a capital exponent": ("12E3", 12 * 10**12),
        "an exponent with a plus sign": ("12e+3", 12 * 10**12),
        "a negative exponent": ("12e-3", 12 * 10**6),
        "a fraction": ("1.5", 15 * 10**8),
        "a fraction of a binary suffix": ("1.5Gi", 3 * 2**29 * 10**9),
        "no digits before the point": (".5", 5 * 10**8),
        "no digits after the point": ("5.", 5 * 10**9),
        "finer than a nano rounds up": ("0.0000000001", 1),
        "finer than a nano rounds away from zero": ("-0.0000000001", -1),
        "a fraction of a nano rounds up": ("1.1n", 2),
        "a small part of a kibi": ("0.0001Ki", 102_400_000),
        "the largest int64": ("9223372036854775807", MAX * 10**9),
        "one more saturates": ("9223372036854775808", MAX * 10**9),
        "eight exbi saturate": ("8Ei", MAX * 10**9),
        "a negative amount saturates": ("-100E", -MAX * 10**9),
        "a huge exponent saturates": ("1e999999999999", MAX * 10**9),
        "a tiny amount rounds up to one nano": ("1e-999999999999", 1),
        "zero stays zero at any exponent": ("0e999999999999", 0),
    },
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


@cases(
    ("raw", "nanos"),
    {
        "an integer": (3, 3 * 10**9),
        "a float is read exactly": (0.1, 10**8),
        "a float with an exponent": (1e21, MAX * 10**9),
        "a float with a negative exponent": (1e-7, 100),
    },
)
def test_parse_numbers(raw, nanos):
    assert Quantity.parse(raw).nanos == nanos


@pytest.mark.parametrize("raw", [float("nan"), float("inf")], ids=repr)
def test_invalid_numbers_are_errors(raw):
    with pytest.raises(InputError):
        Quantity.parse(raw)


@cases(
    ("text", "value", "milli"),
    {
        "a part of one is one": ("100m", 1, 100),
        "away from zero on both sides": ("-100m", -1, -100),
        "a little more than one is two": ("1001m", 2, 1001),
        "a part of a thousandth is a thousandth": ("1u", 1, 1),
        "whole numbers stay": ("2", 2, 2000),
        "thousandths saturate": ("8E", 8 * 10**18, MAX),
        "thousandths saturate below zero": ("-8E", -8 * 10**18, -MAX - 1),
    },
)
def test_rounds_away_from_zero(text, value, milli):
    quantity = Quantity.parse(text)
    assert (quantity.value(), quantity.milli_value()) == (value, milli)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"), ("0Mi", "0"), ("1000m", "1"), ("1500m", "1500m"), ("0.5", "500m"), ("1000", "1k"), ("1024", "1024"),
        ("1Ki", "1Ki"), ("1024Ki", "1Mi"), ("1536Mi", "1536Mi"), ("1.5Gi", "1536Mi"), ("0.5Gi", "512Mi"),
        ("0.5Ki", "512"), ("1000Ki", "1000Ki"), ("1e3", "1e3"), ("12E6", "12e6"), ("100e3", "100e3"), ("1e1", "10"),
        ("1e-3", "1e-3"), ("1E", "1E"), ("-1.5", "-1500m"), ("1.5n", "2n"),
    ],
)  # fmt: skip
def test_canonical_text(text, canonical):
    assert Quantity.parse(text).canonical() == canonical


@cases(
    ("first", "second", "total"),
    {
        "decimal": ("1", "500m", "1500m"),
        "binary": ("1Gi", "512Mi", "1536Mi"),
        "the format of the first, without a suffix that divides the sum": ("1Gi", "1G", "2073741824"),
        "zero does not set the format": ("0", "1Gi", "1Gi"),
        "the sum is zero": ("1", "-1", "0"),
        "saturating": ("8E", "8E", "9223372036854775807"),
    },
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


ROOT = Path(__file__).parents[3]
ROWS = data("model/limits")
TWO = PlacementLimits(*(2 for _ in LIMIT_NAMES))
NAMES = ["a", "b", "c"]
EXISTS = [{"key": name, "operator": "Exists"} for name in NAMES]
SELECTORS = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name} for name in NAMES]


def texts(errors):
    return [re.sub("; use fewer.*", "", str(error)) for error in errors]


def remedies(errors):
    return {str(error).split("raise ")[1] for error in errors}


@cases(("written", "expected", "name"), ROWS["placements above a limit"])
def test_a_placement_above_a_limit_names_the_field_both_numbers_and_the_remedy(written, expected, name):
    placement = convert(Placement, written)
    errors = placement_excess(placement, TWO)
    assert texts(errors) == [expected]
    assert remedies(errors) == {f"{name} in --placement-limits"}
    assert placement_excess(placement, TWO._replace(**{LIMIT_NAMES[name]: 3})) == []
    assert placement_excess(placement) == []


def test_the_paths_of_a_policy_start_at_the_policy():
    policy = convert(
        Policy,
        {
            "kind": "PropagationPolicy",
            "apiVersion": "policy.karmada.io/v1alpha1",
            "metadata": {"name": "p"},
            "spec": {
                "resourceSelectors": [
                    *SELECTORS,
                    {"apiVersion": "v1", "kind": "Secret", "labelSelector": {"matchExpressions": EXISTS}},
                ],
                "placement": {"clusterTolerations": [{}] * 3},
            },
        },
    )
    assert texts(policy_excess(policy, TWO)) == [
        "spec.resourceSelectors: 4 resource selectors; at most 2 are scheduled",
        "spec.resourceSelectors: 3 expressions in its selectors; at most 2 are scheduled",
        "spec.placement.clusterTolerations: 3 tolerations; at most 2 are scheduled",
    ]
    assert policy_excess(policy) == []


@cases(("written", "expected"), ROWS["policies of KubeAdmiral above a limit"])
def test_a_kubeadmiral_policy_above_a_limit(written, expected):
    spec = convert(KubeAdmiralSpec, written)
    assert texts(kubeadmiral_excess(spec, TWO)) == [expected]
    assert kubeadmiral_excess(spec) == []


def test_at_most_sixteen_errors_are_reported():
    group = {"affinityName": "a", "overflowAffinities": [{"affinityName": "o"}] * 65}
    assert len(placement_excess(convert(Placement, {"clusterAffinities": [group] * 100}))) == 16


@cases(
    ("text", "expected"),
    {
        "nothing": ("", DEFAULT_LIMITS),
        "some limits": (
            "groups=2048, overflowAffinities = 8",
            DEFAULT_LIMITS._replace(groups=2048, overflow_affinities=8),
        ),
        "the last one counts": ("groups=1,groups=2,", DEFAULT_LIMITS._replace(groups=2)),
    },
)
def test_limits_are_parsed(text, expected):
    assert PlacementLimits.parse(text) == expected


@cases(
    ("text", "problem"),
    {
        "an unknown name": ("group=1", "unknown limit 'group'; known are resourceSelectors, groups, "),
        "no number": ("groups", f"'groups' is not NAME=N with N from 1 to {MAX_LIMIT}"),
        "zero": ("groups=0", "'groups=0' is not NAME=N"),
        "a negative number": ("groups=-1", "'groups=-1' is not NAME=N"),
        "a number that is too large": (f"groups={MAX_LIMIT + 1}", "is not NAME=N"),
        "a number of thousands of digits": (f"groups={'9' * 5000}", "is not NAME=N"),
    },
)
def test_a_list_of_limits_that_is_invalid(text, problem):
    with pytest.raises(InputError, match=re.escape(problem)):
        PlacementLimits.parse(text)


def test_the_page_lists_every_limit_with_its_default():
    page = (ROOT / "docs" / "security-limits.md").read_text().split("### Limits of placements")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", page, re.MULTILINE)
    defaults = DEFAULT_LIMITS._asdict()
    assert rows == [(name, f"{defaults[field]:,}") for name, field in LIMIT_NAMES.items()]
