"""Label selectors (``meta/v1.LabelSelector``): validation, evaluation, and the text form of kubectl.

A selector is compiled to *requirements* once and evaluated often. An invalid selector (an unknown operator, or a value
that no label can have) has no requirements and matches nothing at run time, as in Karmada.
"""

import re
from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import Final, NamedTuple

from berthmaster.model.errors import FieldError, InputError, shown
from berthmaster.model.meta import Value, int64_of

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_MAX_SUBDOMAIN: Final = 253

LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
NODE_OPERATORS: Final = (*LABEL_OPERATORS, "Gt", "Lt")
_MAX_LENGTH: Final = 4096
_VALUES_SHOWN: Final = 32
_PART: Final = re.compile(
    r"(?P<absent>!?)\s*(?P<key>[^\s,!=()]+)"
    r"(?:\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\)|\s*(?P<equality>==|=|!=)\s*(?P<value>[^\s,!=()]*))?"
    r"\s*(?P<end>,\s*|\Z)"
)


class SelectorRequirement(Value, frozen=True):
    """One expression of a label or field selector. ``operator`` is not validated; see ``requirement_error``."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Value, frozen=True):
    """A selector: all ``match_labels`` and ``match_expressions`` must hold. An empty selector matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[SelectorRequirement, ...] = ()

    def __hash__(self) -> int:
        return hash((frozenset(self.match_labels.items()), self.match_expressions))

    def requirements(self) -> "tuple[Requirement, ...] | None":
        """Compile the selector to requirements; return None if it is invalid and therefore matches nothing."""
        expressions = [
            SelectorRequirement(key=key, operator="In", values=(value,)) for key, value in self.match_labels.items()
        ]
        return parse_requirements([*expressions, *self.match_expressions], LABEL_OPERATORS)

    def matches(self, labels: Mapping[str, str]) -> bool:
        requirements = self.requirements()
        return requirements is not None and all(each.matches(labels) for each in requirements)


class Requirement(NamedTuple):
    """A valid expression. ``values`` is a set; for ``Gt`` and ``Lt`` it holds one integer as text."""

    key: str
    operator: str
    values: frozenset[str]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels satisfy the requirement. A missing key satisfies only NotIn and DoesNotExist."""
        actual = labels.get(self.key)
        match self.operator:
            case "In":
                return actual in self.values
            case "NotIn":
                return actual not in self.values
            case "Exists":
                return actual is not None
            case "DoesNotExist":
                return actual is None
            case _:
                return actual is not None and self._compares(actual)

    def _compares(self, actual: str) -> bool:
        (bound,) = self.values
        number = int64_of(actual)
        if number is None:
            return False
        return number > int(bound) if self.operator == "Gt" else number < int(bound)

    def __str__(self) -> str:
        match self.operator:
            case "In" | "NotIn" if len(self.values) == 1:
                return f"{self.key}{'=' if self.operator == 'In' else '!='}{next(iter(self.values))}"
            case "Exists" | "DoesNotExist":
                return self.key if self.operator == "Exists" else f"!{self.key}"
            case _:
                listed = ", ".join(nsmallest(_VALUES_SHOWN, self.values))
                more = len(self.values) - _VALUES_SHOWN
                return f"{self.key} {self.operator} ({listed}{f', and {more} more' if more > 0 else ''})"


def parse_requirements(
    expressions: Iterable[SelectorRequirement], operators: tuple[str, ...]
) -> tuple[Requirement, ...] | None:
    parsed = []
    for expression in expressions:
        if requirement_error(expression, operators) is not None:
            return None
        parsed.append(Requirement(expression.key, expression.operator, frozenset(expression.values)))
    return tuple(parsed)


def requirement_error(expression: SelectorRequirement, operators: tuple[str, ...]) -> FieldError | None:
    """Return the invalid part of an expression, or None (apimachinery ``labels.NewRequirement``)."""
    operator, values = expression.operator, expression.values
    if operator not in operators:
        return FieldError("operator", f"unknown operator {operator!r}; accepted are {', '.join(operators)}")
    if not is_label_key(expression.key):
        return FieldError("key", f"{expression.key!r} is not a label key")
    match operator:
        case "In" | "NotIn" if not values:
            return FieldError("values", f"operator {operator} needs at least one value")
        case "Exists" | "DoesNotExist" if values:
            return FieldError("values", f"operator {operator} takes no values")
        case "Gt" | "Lt" if len(values) != 1 or int64_of(values[0]) is None:
            return FieldError("values", f"operator {operator} needs exactly one integer value")
    bad = next((index for index, value in enumerate(values) if not is_label_value(value)), None)
    return None if bad is None else FieldError(f"values[{bad}]", f"{values[bad]!r} is not a label value")


def is_label_key(text: str) -> bool:
    """Return whether text is a qualified name, ``[prefix/]name``: a DNS subdomain and a name of 1 to 63 characters."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Return whether text is empty or 1 to 63 characters, alphanumeric at both ends, with ``-_.`` inside."""
    return not text or _NAME.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Return whether text is a DNS-1123 subdomain: lower case, at most 253 characters."""
    return len(text) <= _MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None


def parse_selector(text: str) -> LabelSelector:
    """Parse a selector as kubectl writes it (apimachinery ``labels.Parse``). Raises ``InputError``."""
    expressions: list[SelectorRequirement] = []
    rest = text.strip() if len(text) <= _MAX_LENGTH else "("
    while rest:
        expression, rest = _first(rest, text)
        error = requirement_error(expression, LABEL_OPERATORS)
        if error is not None:
            raise InputError(f"selector {shown(text)}: {error.problem}")
        expressions.append(expression)
    return LabelSelector(match_expressions=tuple(expressions))


def _first(rest: str, text: str) -> tuple[SelectorRequirement, str]:
    match = _PART.match(rest)
    # A trailing comma does not end a part.
    trails = match is not None and match["end"] and match.end() == len(rest)
    if match is None or trails or (match["absent"] and (match["set"] or match["equality"])):
        raise InputError(
            f"{shown(text)} is not a selector; accepted are parts like key=value, key!=value, key in (a,b), "
            "key notin (a,b), key and !key, joined by commas"
        )
    if match["set"]:
        values = tuple(value.strip() for value in match["values"].split(","))
        found = SelectorRequirement(match["key"], "In" if match["set"] == "in" else "NotIn", values)
    elif match["equality"]:
        found = SelectorRequirement(match["key"], "NotIn" if match["equality"] == "!=" else "In", (match["value"],))
    else:
        found = SelectorRequirement(match["key"], "DoesNotExist" if match["absent"] else "Exists")
    return found, rest[match.end() :]
