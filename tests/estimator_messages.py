"""The estimators' messages as classes of the protobuf library, built from tables of their fields."""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tables import data

_PACKAGE = "github.com.karmada_io.karmada.pkg.estimator.pb"
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
}


def _add_field(message: Any, name: str, number: int, kind: str) -> None:
    field = message.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL)
    if kind.startswith("map "):
        entry = message.nested_type.add(name=f"{name[0].upper()}{name[1:]}Entry")
        entry.options.map_entry = True
        _add_field(entry, "key", 1, "string")
        _add_field(entry, "value", 2, kind.removeprefix("map "))
        kind = f"*{message.name}.{entry.name}"
    if kind.startswith("*"):
        field.label = _FIELD.LABEL_REPEATED
    if kind.endswith("?"):
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    kind = kind.strip("*?")
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="estimator.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in data("estimator_messages").items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _add_field(message, field, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClassesForFiles([file.name], pool)


_CLASSES = {name.rpartition(".")[2]: each for name, each in _classes().items()}


def proto(name: str, /, **fields: Any) -> Any:
    return _CLASSES[name](**fields)


def parsed(name: str, content: bytes) -> Any:
    return _CLASSES[name].FromString(content)
