"""Karmada's policies as a webhook reads them: the types of ``berthmaster.model``, as tolerant as Go's decoder."""

from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

import msgspec

from berthmaster.model.decode import convert, decode_json
from berthmaster.model.meta import Value
from berthmaster.model.policy import (
    Policy,
)

_ZERO_VALUES: Final[dict[Any, Any]] = {str: "", int: 0, bool: False, tuple: (), dict: {}}


def read(raw: dict[str, Any]) -> Policy:
    """Read a policy.

    Every enumeration accepts any text, and no field is required: a field that is absent has Go's zero value. The API
    server has validated the object against the schema of the installed Karmada, which may be newer than this code. A
    review must not deny an object for a value that karmada-webhook would accept.

    Raises:
        FieldError: a value has the wrong type.
    """
    return cast("Policy", convert(_lenient_struct(Policy), raw))


def decode(document: bytes) -> Policy:
    """Decode a policy from JSON; see ``read``."""
    return cast("Policy", decode_json(_lenient_struct(Policy), document))


@cache
def _lenient_struct(kind: type[Value]) -> type[Value]:
    """Derive the type that accepts any text for an enumeration and requires no field."""
    fields = []
    for field in msgspec.structs.fields(kind):
        lenient = _lenient(field.type)
        has_default = field.default is not msgspec.NODEFAULT and not isinstance(field.default, Value)
        default = field.default if has_default else _zero_value(lenient)
        fields.append((field.name, lenient, default))
    return cast("type[Value]", msgspec.defstruct(kind.__name__, fields, bases=(kind,), frozen=True, kw_only=True))


def _lenient(annotation: Any) -> Any:  # noqa: ANN401 - a type
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return str
    if origin in {Union, UnionType}:
        return reduce(or_, map(_lenient, arguments))
    if origin is tuple:
        return tuple.__class_getitem__((_lenient(arguments[0]), ...))
    if isinstance(annotation, type) and issubclass(annotation, Value):
        return _lenient_struct(annotation)
    return annotation


def _zero_value(annotation: Any) -> Any:  # noqa: ANN401 - a type, and a value of it
    origin = get_origin(annotation)
    if origin is Annotated:
        return _zero_value(get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, Value):
        return annotation()
    return _ZERO_VALUES[origin or annotation]
