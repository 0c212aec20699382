"""The estimators' messages as classes of the protobuf library, built from tables of their fields."""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "github.com.karmada_io.karmada.pkg.estimator.pb"
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
}
# Fields of Kubernetes' types, such as resourceRequest, are those of Karmada up to 1.18.
# Message: its fields with number and type; "*" means repeated, "map X" is a map from strings to X.
_ESTIMATOR = {
    "NodeClaim": {
        "nodeAffinity": (1, "NodeSelector"),
        "nodeSelector": (2, "map string"),
        "tolerations": (3, "*Toleration"),
        "nodeAffinityBytes": (4, "bytes"),
        "tolerationsBytes": (5, "*bytes"),
    },
    "ReplicaRequirements": {
        "nodeClaim": (1, "NodeClaim"),
        "resourceRequest": (2, "map Quantity"),
        "namespace": (3, "string"),
        "priorityClassName": (4, "string"),
        "resourceRequestBytes": (5, "map bytes"),
    },
    "MaxAvailableReplicasRequest": {"cluster": (1, "string"), "replicaRequirements": (2, "ReplicaRequirements")},
    "MaxAvailableReplicasResponse": {"maxReplicas": (1, "int32")},
    "ComponentReplicaRequirements": {
        "nodeClaim": (1, "NodeClaim"),
        "resourceRequest": (2, "map Quantity"),
        "priorityClassName": (3, "string"),
        "resourceRequestBytes": (4, "map bytes"),
    },
    "Component": {
        "name": (1, "string"),
        "replicaRequirements": (2, "ComponentReplicaRequirements"),
        "replicas": (3, "int32"),
    },
    "MaxAvailableComponentSetsRequest": {
        "cluster": (1, "string"),
        "components": (2, "*Component"),
        "namespace": (3, "string"),
    },
    "MaxAvailableComponentSetsResponse": {"maxSets": (1, "int32")},
    "ObjectReference": {
        "apiVersion": (1, "string"),
        "kind": (2, "string"),
        "namespace": (3, "string"),
        "name": (4, "string"),
    },
    "UnschedulableReplicasRequest": {
        "cluster": (1, "string"),
        "resource": (2, "ObjectReference"),
        "unschedulableThreshold": (3, "int64"),
    },
}  # fmt: skip
_KUBERNETES = {
    "Quantity": {"string": (1, "string")},
    "NodeSelectorRequirement": {"key": (1, "string"), "operator": (2, "string"), "values": (3, "*string")},
    "NodeSelectorTerm": {
        "matchExpressions": (1, "*NodeSelectorRequirement"),
        "matchFields": (2, "*NodeSelectorRequirement"),
    },
    "NodeSelector": {"nodeSelectorTerms": (1, "*NodeSelectorTerm")},
    "Toleration": {
        "key": (1, "string"),
        "operator": (2, "string"),
        "value": (3, "string"),
        "effect": (4, "string"),
        "tolerationSeconds": (5, "int64?"),
    },
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
    for name, fields in {**_ESTIMATOR, **_KUBERNETES}.items():
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
