import pytest

from berthmaster.manifests.scalars import plain_scalar, tagged_scalar
from berthmaster.model.errors import InputError

# What sigs.k8s.io/yaml v1.4.0 makes of each scalar on its way to JSON.
PLAIN = [
    ("y", True), ("Y", True), ("yes", True), ("Yes", True), ("on", True), ("On", True), ("true", True), ("TRUE", True),
    ("n", False), ("no", False), ("off", False), ("OFF", False), ("False", False),
    ("yEs", "yEs"), ("tRue", "tRue"), ("yy", "yy"), ("nginx", "nginx"), ("oN", "oN"),
    ("", None), ("~", None), ("null", None), ("Null", None), ("NULL", None), ("nUll", "nUll"),
    ("0", 0), ("1", 1), ("+1", 1), ("-1", -1), ("-0", 0), ("00", 0), ("08", 8), ("1_000", 1000), ("1__0", 10),
    ("1_", 1), ("_1", "_1"), ("0777", 511), ("0o17", 15), ("0O17", 15), ("-0o17", -15), ("0_7", 7),
    ("0x1F", 31), ("-0x1F", -31), ("+0x1F", 31), ("0X1f", 31), ("0b101", 5), ("-0b101", -5), ("0B1", 1),
    ("0b12", "0b12"),
    ("9223372036854775807", 2**63 - 1), ("18446744073709551615", 2**64 - 1), ("-9223372036854775808", -(2**63)),
    ("1e3", 1000), ("1E3", 1000), ("1e+3", 1000), ("12e03", 12000), ("+12e3", 12000), ("1e-3", 0.001), ("1e21", 1e21),
    ("1.", 1), (".5", 0.5), ("-.5", -0.5), ("+.5", 0.5), ("1.5e3", 1500), ("1.0", 1), ("0.1", 0.1), ("1_000.5", 1000.5),
    ("1._5", 1.5), ("123456789.5", 123456789.5), ("1e400", "1e400"),
    (".", "."), ("-", "-"), ("+", "+"), ("1.2.3", "1.2.3"), ("1:30", "1:30"), ("190:20:30.15", "190:20:30.15"),
    ("v1", "v1"), ("1Gi", "1Gi"), ("100m", "100m"), ("=", "="), ("...", "..."), ("٣", "٣"),
    ("2026-01-01", "2026-01-01"), ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), PLAIN, ids=[repr(text) for text, _ in PLAIN])
def test_plain_scalars_are_what_kubectl_makes_of_them(text, value):
    read = plain_scalar(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("text", [".inf", "-.inf", "+.Inf", ".INF", ".nan", ".NaN"])
def test_numbers_that_json_does_not_have_are_refused(text):
    with pytest.raises(InputError, match="has no JSON form"):
        plain_scalar(text)


@pytest.mark.parametrize("digits", [71, 5000, 100_000], ids=str)
def test_endless_digits_are_a_float_or_text_and_take_no_time(digits):
    read = plain_scalar("1" * digits)
    assert isinstance(read, float if digits < 300 else str)


@pytest.mark.parametrize(
    ("tag", "text", "value"),
    [
        ("!!str", "1", "1"), ("!!str", "", ""), ("!!timestamp", "2026-01-01", "2026-01-01"), ("!", "1", "1"),
        ("!!int", "0x1F", 31), ("!!float", "1", 1), ("!!float", "1.5", 1.5), ("!!bool", "yes", True),
        ("!!null", "", None),
    ],
)  # fmt: skip
def test_tags_say_what_a_scalar_is(tag, text, value):
    assert tagged_scalar(tag.replace("!!", "tag:yaml.org,2002:"), text) == value


@pytest.mark.parametrize(
    ("tag", "text"),
    [
        ("!!int", "x"), ("!!int", "true"), ("!!int", "1.5"), ("!!bool", "1"), ("!!null", "x"), ("!!float", "yes"),
        ("!!python/name:os.system", ""), ("!!binary", "aGk="), ("!custom", "x"), ("str", "x"),
    ],
)  # fmt: skip
def test_tags_that_do_not_fit_or_mean_nothing_are_refused(tag, text):
    with pytest.raises(InputError, match=r"is not a !!|means nothing in a manifest"):
        tagged_scalar(tag.replace("!!", "tag:yaml.org,2002:"), text)
