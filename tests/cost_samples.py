"""Complete documents of API types: every field is set, and every list and map has one entry.

A new field of a type is part of these documents at once. Names end with ``-0``: copies of an entry get other numbers,
so that a group names the cluster with its own number.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from msgspec import inspect
from tables import data

from berthmaster.model.quantity import Quantity

JSON = Any
VALUES: Mapping[str, JSON] = data("sample_values")
"""The values of fields that accept only some texts, or that refer to each other, by the end of their path."""
OMITTED = frozenset(
    {"deletionTimestamp", "dynamicWeight", "spreadByLabel", "clusterAffinity", "managedFields", "generateName"}
)
"""Fields that exclude others. ``deletionTimestamp`` would end most checks early."""


def sample(kind: Any, values: Mapping[str, JSON] | None = None, omitted: Collection[str] = OMITTED) -> JSON:
    """Return a document of a type.

    Args:
        kind: the type.
        values: values that replace those of ``VALUES``, by the end of their path.
        omitted: the names of fields that are left out.
    """
    return _Sampler({**VALUES, **(values or {})}, frozenset(omitted)).of(inspect.type_info(kind), ())


class _Sampler:
    def __init__(self, values: Mapping[str, JSON], omitted: frozenset[str]) -> None:
        self._values = values
        self._omitted = omitted

    def of(self, kind: inspect.Type, path: tuple[str, ...]) -> JSON:
        match kind:
            case inspect.UnionType():
                return self.of(next(each for each in kind.types if not isinstance(each, _ABSENT)), path)
            case inspect.StructType():
                return self._struct(kind, path)
            case inspect.VarTupleType() | inspect.ListType():
                item = kind.item_type
                # A list of tagged structs gets one of each.
                each = item.types if isinstance(item, inspect.UnionType) and _is_tagged(item) else (item,)
                return [self.of(one, path) for one in each]
        known = next((found for at in range(len(path)) if (found := self._values.get(".".join(path[at:])))), None)
        return self._scalar(kind, path) if known is None else known

    def _struct(self, kind: inspect.StructType, path: tuple[str, ...]) -> JSON:
        tag = {kind.tag_field: kind.tag} if kind.tag_field else {}
        fields = (each for each in kind.fields if each.encode_name not in self._omitted)
        return tag | {each.encode_name: self.of(each.type, (*path, each.encode_name)) for each in fields}

    def _scalar(self, kind: inspect.Type, path: tuple[str, ...]) -> JSON:
        match kind:
            case inspect.DictType():
                return {f"{path[-1].lower()}-0": self.of(kind.value_type, (*path, "*"))}
            case inspect.LiteralType():
                return next(filter(None, kind.values))
            case inspect.EnumType():
                return next(iter(kind.cls)).value
            case inspect.StrType():
                return f"{path[-1].lower()}-0"
            case inspect.BoolType():
                return False
            case inspect.IntType() | inspect.FloatType():
                return 1
            case inspect.DateTimeType():
                return datetime(2026, 1, 1).isoformat() + "Z"  # noqa: DTZ001 - the zone is in the text
            case inspect.CustomType(cls=cls) if cls is Quantity:
                return "1"
            case inspect.AnyType():
                return {}
        raise NotImplementedError(f"{'.'.join(path)}: {kind}")


_ABSENT: tuple[type, ...] = (inspect.NoneType,)


def _is_tagged(kind: inspect.UnionType) -> bool:
    return all(isinstance(each, inspect.StructType) and each.tag_field for each in kind.types)
