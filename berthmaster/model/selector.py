"""Label selectors (``meta/v1.LabelSelector``) and what makes one valid.

A selector is turned into *requirements* once and evaluated often. A broken one (an unknown operator, a value that no
label can have) yields no requirements at all: it matches nothing at run time, as in Karmada.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from berthmaster.model.errors import FieldError, InputError, shown
from berthmaster.model.meta import Value, int64_of

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_MAX_SUBDOMAIN: Final = 253

LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
NODE_OPERATORS: Final = (*LABEL_OPERATORS, "Gt", "Lt")


class SelectorRequirement(Value, frozen=True):
    """One expression of a label or field selector. ``operator`` is as written; see ``requirement_problem``."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Value, frozen=True):
    """All of ``match_labels`` and all of ``match_expressions`` must hold; an empty selector matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[SelectorRequirement, ...] = ()

    def __hash__(self) -> int:
        return hash((frozenset(self.match_labels.items()), self.match_expressions))

    def requirements(self) -> "tuple[Requirement, ...] | None":
        """The selector as requirements, or None if it is broken and so matches nothing."""
        expressions = [
            SelectorRequirement(key=key, operator="In", values=(value,)) for key, value in self.match_labels.items()
        ]
        return parse_requirements([*expressions, *self.match_expressions], LABEL_OPERATORS)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        requirements = self.requirements()
        return requirements is not None and all(each.matches(labels) for each in requirements)


class Requirement(NamedTuple):
    """A valid expression: ``values`` as a set, for ``Gt`` and ``Lt`` one integer as text."""

    key: str
    operator: str
    values: frozenset[str]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy it. A missing key satisfies NotIn and DoesNotExist only."""
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
                return f"{self.key} {self.operator} ({', '.join(sorted(self.values))})"


def parse_requirements(
    expressions: Iterable[SelectorRequirement], operators: tuple[str, ...]
) -> tuple[Requirement, ...] | None:
    """Expressions as requirements, or None as soon as one of them is broken."""
    parsed = []
    for expression in expressions:
        if requirement_problem(expression, operators) is not None:
            return None
        parsed.append(Requirement(expression.key, expression.operator, frozenset(expression.values)))
    return tuple(parsed)


def requirement_problem(expression: SelectorRequirement, operators: tuple[str, ...]) -> str | None:
    """Why an expression is broken and what is accepted, or None."""
    error = requirement_error(expression, operators)
    return None if error is None else error.problem


def requirement_error(expression: SelectorRequirement, operators: tuple[str, ...]) -> FieldError | None:
    """The broken part of an expression and what is accepted (apimachinery ``labels.NewRequirement``), or None."""
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
    return None if bad is None else FieldError(f"values[{bad}]", f"{values[bad]!r} is no value a label can have")


def is_label_key(text: str) -> bool:
    """Whether text is a qualified name: ``[prefix/]name``, the prefix a DNS subdomain, the name 1 to 63 characters."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Whether text is empty or 1 to 63 characters, alphanumeric at both ends, with ``-_.`` inside."""
    return not text or _NAME.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Whether text is a DNS-1123 subdomain: lower case, at most 253 characters."""
    return len(text) <= _MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None


_MAX_LENGTH: Final = 4096
_SET: Final = re.compile(r"(?P<key>[^\s,!=()]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL: Final = re.compile(r"(?P<key>[^\s,!=()]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s,!=()]*)")
_PRESENT: Final = re.compile(r"(?P<absent>!?)\s*(?P<key>[^\s,!=()]+)")
_COMMA: Final = re.compile(r"\s*(,\s*|\Z)")


def parse_selector(text: str) -> LabelSelector:
    """Read ``key=value,key!=value,key in (a,b),key notin (a),key,!key``; all parts must hold, empty means everything.

    Raises:
        InputError: it does not have this form, or a key or value is none that a label can have.
    """
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
    """The first part of a selector and what follows its comma."""
    for pattern, read in ((_SET, _of_set), (_EQUAL, _of_equality), (_PRESENT, _of_presence)):
        match = pattern.match(rest)
        comma = match and _COMMA.match(rest, match.end())
        # A comma at the very end is no end of a part.
        if match and comma and not (comma[1] and comma.end() == len(rest)):
            return read(match), rest[comma.end() :]
    raise InputError(
        f"{shown(text)} is not a selector; accepted are parts like key=value, key!=value, key in (a,b), "
        "key notin (a,b), key and !key, joined by commas"
    )


def _of_set(match: re.Match[str]) -> SelectorRequirement:
    values = tuple(value.strip() for value in match["values"].split(","))
    return SelectorRequirement(match["key"], "In" if match["operator"] == "in" else "NotIn", values)


def _of_equality(match: re.Match[str]) -> SelectorRequirement:
    return SelectorRequirement(match["key"], "NotIn" if match["operator"] == "!=" else "In", (match["value"],))


def _of_presence(match: re.Match[str]) -> SelectorRequirement:
    return SelectorRequirement(match["key"], "DoesNotExist" if match["absent"] else "Exists")
