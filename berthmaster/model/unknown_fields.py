"""Fields of a document that its type does not have."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, Final, get_args, get_origin

import msgspec

from berthmaster.model.errors import FieldError
from berthmaster.model.hints import closest
from berthmaster.model.struct_fields import fields_of, structs_in

MAX_UNKNOWN_FIELDS: Final = 50
"""How many unknown fields of a document ``unknown_fields`` names."""

_MISSPELLED: Final = 0.8
"""The similarity of names (``difflib``) from which an unknown field counts as misspelled."""


class UnknownFieldError(FieldError):
    """A field is unknown. Unless ``misspelled``, it is more likely one of another version of the API.

    ``known``: the fields of its object.
    """

    def __init__(self, path: str, problem: str, known: Iterable[str] = (), *, misspelled: bool = False) -> None:
        self.misspelled = misspelled
        self.known = tuple(known)
        super().__init__(path, problem)


def unknown_fields(kind: type[msgspec.Struct], raw: Mapping[str, Any]) -> list[UnknownFieldError]:
    """Return an error for each unknown field, with the most similar known name; for many fields only their number."""
    found = _unknown(kind, raw, "")
    errors = [_unknown_field(*each) for each in islice(found, MAX_UNKNOWN_FIELDS)]
    more = sum(1 for _ in found)
    return [*errors, UnknownFieldError("", f"and {more} more unknown fields")] if more else errors


def has_unknown_fields(kind: type[msgspec.Struct], raw: Mapping[str, Any]) -> bool:
    """Return whether ``unknown_fields`` would report anything. Much faster than the report."""
    known, nested = struct_shape(kind)
    if not raw.keys() <= known:
        return True
    for name, value in raw.items():
        struct = nested.get(name)
        if struct is None:
            continue
        if type(value) is dict:
            if has_unknown_fields(struct, value):
                return True
        elif value and type(value) is list:
            for each in value:
                if type(each) is dict and has_unknown_fields(struct, each):
                    return True
    return False


@cache
def struct_shape(kind: type[msgspec.Struct]) -> tuple[frozenset[str], Mapping[str, type[msgspec.Struct]]]:
    """Return the names of a struct's fields, and the struct of each field that has one or a list of them."""
    nested = {}
    for name, hint in fields_of(kind).items():
        inner = next((get_args(each)[0] for each in (hint, *get_args(hint)) if get_origin(each) is tuple), hint)
        struct = next(iter(structs_in(inner) or structs_in(hint)), None)
        if struct is not None and name != "metadata":  # the type of metadata lists only what decisions read
            nested[name] = struct
    return frozenset(fields_of(kind)), nested


def _unknown_field(path: str, key: str, known: Iterable[str]) -> UnknownFieldError:
    close = closest(key, known)
    if close is None:
        return UnknownFieldError(path, "unknown field", known)
    misspelled = closest(key, (close,), _MISSPELLED) is not None
    return UnknownFieldError(path, f"unknown field; did you mean {close}?", known, misspelled=misspelled)


def _unknown(
    struct: type[msgspec.Struct], raw: Mapping[str, Any], path: str
) -> Iterator[tuple[str, str, Iterable[str]]]:
    """Yield the path and the key of each unknown field, with the known names of its object."""
    known, nested = struct_shape(struct)
    for key, value in raw.items():
        here = f"{path}.{key}" if path else str(key)
        if key not in known:
            yield here, str(key), fields_of(struct)
        elif (inner := nested.get(key)) is not None:
            entries = enumerate(value) if isinstance(value, list) else ()
            for at, each in ((here, value), *((f"{here}[{index}]", entry) for index, entry in entries)):
                if isinstance(each, Mapping):
                    yield from _unknown(inner, each, at)
