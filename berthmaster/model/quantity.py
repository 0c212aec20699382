"""Resource quantities, exact to a billionth (k8s.io/apimachinery ``resource.Quantity``)."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from berthmaster.model.errors import FieldError, InputError, shown
from berthmaster.model.meta import INT64_MAX

NANOS: Final = 10**9
MILLI_NANOS: Final = 10**6
_QUANTITY: Final = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d+))?", re.ASCII)
_DECIMAL_EXPONENTS: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SHIFTS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LIMIT_NANOS: Final = INT64_MAX * NANOS
_MAX_LENGTH: Final = 256
# Beyond these powers of ten every non-zero quantity of bounded length equals one of the two limits.
_MAX_EXPONENT: Final = _MAX_LENGTH + 64


class Quantity:
    """An amount of a resource.

    Attributes:
        nanos: the exact amount in billionths. As in Kubernetes, a finer amount is rounded away from zero, and an
            amount that does not fit an int64 saturates.
        text: the text of the document, which is written back unchanged.
    """

    __slots__ = ("nanos", "text")

    def __init__(self, nanos: int, text: str) -> None:
        self.nanos = nanos
        self.text = text

    @classmethod
    def parse(cls, raw: str | float) -> "Quantity":
        """Parse a quantity from a string or a JSON number. Raises ``InputError`` that says what is accepted."""
        text = raw if isinstance(raw, str) else repr(raw)  # repr is the shortest exact form of a float
        match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_LENGTH else None
        if match is None or not (match[2] or match[3]):
            raise InputError(
                f"{shown(raw)} is not a quantity; accepted are decimal numbers with an optional suffix "
                "n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent like e3"
            )
        sign, whole, fraction, suffix, exponent = match.groups(default="")
        digits = int(whole + fraction or "0")
        nanos = min(_scaled_to_nanos(digits, len(fraction), suffix, exponent), _LIMIT_NANOS)
        return cls(-nanos if sign == "-" else nanos, text)

    def value(self) -> int:
        """Return the amount in whole units, rounded away from zero."""
        return rounded_up(self.nanos, NANOS)

    def milli_value(self) -> int:
        """Return the amount in thousandths, rounded away from zero and saturated to int64."""
        milli = rounded_up(self.nanos, MILLI_NANOS)
        return max(-INT64_MAX - 1, min(milli, INT64_MAX))

    def canonical(self) -> str:
        """Return the amount as Kubernetes prints it: without a fraction, with the largest suffix of its format.

        An amount with a binary suffix gets a decimal one if it is below 1Ki or not a whole number.
        """
        suffix = self.text.lstrip("+-.0123456789")
        if suffix in _BINARY_SHIFTS and abs(self.nanos) >= 1024 * NANOS and self.nanos % NANOS == 0:
            return _binary_text(self.nanos // NANOS)
        return _decimal_text(self.nanos, exponents=suffix[:1] in {"e", "E"} and suffix != "E")

    def __add__(self, other: "Quantity") -> "Quantity":
        """Return the exact, saturated sum in the format of the first non-zero operand."""
        nanos = max(-_LIMIT_NANOS, min(self.nanos + other.nanos, _LIMIT_NANOS))
        total = Quantity(nanos, self.text if self.nanos else other.text)
        total.text = total.canonical()
        return total

    def __lt__(self, other: "Quantity") -> bool:
        return self.nanos < other.nanos

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __repr__(self) -> str:
        return f"Quantity({self.text!r})"


def negative_amounts(path: str, amounts: Mapping[str, Quantity]) -> Iterator[FieldError]:
    return (negative_error(f"{path}[{name}]", amount) for name, amount in amounts.items() if amount.nanos < 0)


def negative_error(path: str, amount: Quantity) -> FieldError:
    return FieldError(path, f"{amount.text!r} is negative; accepted are quantities of 0 and more")


def _scaled_to_nanos(digits: int, decimals: int, suffix: str, exponent: str) -> int:
    """Return ``digits * 10**-decimals`` times the suffix or exponent, in nanos, rounded up."""
    if suffix in _BINARY_SHIFTS:
        return -(-(digits << _BINARY_SHIFTS[suffix]) * NANOS // _power_of_ten(decimals))
    power = int(exponent) if exponent else _DECIMAL_EXPONENTS[suffix]
    power = max(-_MAX_EXPONENT, min(power, _MAX_EXPONENT)) - decimals + 9
    return digits * _power_of_ten(power) if power >= 0 else -(-digits // _power_of_ten(-power))


def _power_of_ten(exponent: int) -> int:
    """Return an exact power of ten as an int. The exponent must not be negative."""
    return int(10**exponent)


def _binary_text(whole: int) -> str:
    shift = max((shift for shift in _BINARY_SHIFTS.values() if whole % (1 << shift) == 0), default=0)
    suffix = next((suffix for suffix, each in _BINARY_SHIFTS.items() if each == shift), "")
    return f"{whole >> shift}{suffix}"


def _decimal_text(nanos: int, *, exponents: bool) -> str:
    """Format nanos with the largest power of a thousand that divides them, as a suffix or an exponent."""
    if nanos == 0:
        return "0"
    power = max(power for power in _DECIMAL_EXPONENTS.values() if nanos % 10 ** (power + 9) == 0)
    number = nanos // 10 ** (power + 9)
    if exponents:
        return f"{number}e{power}" if power else str(number)
    return f"{number}{next(suffix for suffix, each in _DECIMAL_EXPONENTS.items() if each == power)}"


def rounded_up(dividend: int, divisor: int) -> int:
    """Return a quotient, rounded away from zero."""
    return -(-dividend // divisor) if dividend >= 0 else dividend // divisor
