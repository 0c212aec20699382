"""The fields of structs, by their names in JSON."""

from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec


@cache
def fields_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the type of each field of a struct, by the name of the field in JSON."""
    hints = get_type_hints(struct)
    pairs = zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True)
    return {encoded: hints[name] for encoded, name in pairs}


def structs_in(kind: Any) -> list[type[msgspec.Struct]]:  # noqa: ANN401 - a type
    """Return a type if it is a struct, and the structs among its arguments."""
    return [each for each in (kind, *get_args(kind)) if isinstance(each, type) and issubclass(each, msgspec.Struct)]
