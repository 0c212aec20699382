"""JSON Patch (RFC 6902): a draft of a raw document records its changes.

A patch contains only the recorded changes. Unknown fields stay unchanged, and an unchanged document has no patch. The
draft never changes the original: it copies each container before the first change to it.

A list with many changed objects is replaced as a whole if that makes a smaller patch.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

Token = str | int


MAX_PATCH_BYTES: Final = 2**20


_COMPARED_FROM: Final = 16  # changed objects; below, replacing the list saves little


_FIELD_BYTES: Final = len('"":"",')


_OPERATION_BYTES: Final = len('{"op":"replace","path":"","value":},')


class PatchTooLargeError(Exception):
    """Too many objects of a list need defaults."""

    def __init__(self, path: str, objects: int) -> None:
        super().__init__(path)
        self.path = path
        self.objects = objects


class PatchOperation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation. A removal has no ``value``."""

    op: Literal["add", "replace", "remove"]
    path: str
    value: Any = msgspec.UNSET


class Draft:
    """A copy of a raw document that records its changes."""

    __slots__ = ("_operations", "_owned", "document")

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = dict(document)
        self._operations: list[PatchOperation] = []
        # Python may reuse the id of a deleted container. The references keep the containers alive.
        self._owned: dict[int, Any] = {id(self.document): self.document}

    @property
    def operations(self) -> tuple[PatchOperation, ...]:
        return tuple(self._operations)

    def get(self, *tokens: Token) -> Any:  # noqa: ANN401 - any JSON value
        value: Any = self.document
        for token in tokens:
            if isinstance(value, dict):
                value = value.get(token)
            elif isinstance(value, list) and isinstance(token, int):
                value = value[token]
            else:
                return None
        return value

    def set(self, value: Any, *tokens: Token) -> None:  # noqa: ANN401 - any JSON value
        """Set the value at a path. One operation adds all parents that are missing or null."""
        *parents, last = tokens
        container = self.document
        for depth, token in enumerate(parents):
            child = self._own(container, token)
            if child is None:
                added = _nested(value, tokens[depth + 1 :])
                self._assign(container, token, added, tokens[: depth + 1])
                return
            container = child
        self._assign(container, last, value, tokens)

    def complete(self, missing: Callable[[dict[str, Any]], Mapping[str, Any]], *tokens: str) -> None:
        """Add fields to the objects of a list, by one operation for each field, or one that replaces the list.

        Takes linear time and memory. The memory is at most a small multiple of ``MAX_PATCH_BYTES``.

        Args:
            missing: returns the fields that an object lacks; it may be empty. Return the same value for equal fields:
                all of them are kept.
            tokens: the path of the list. It may be absent.

        Raises:
            PatchTooLargeError: the patch would be larger than ``MAX_PATCH_BYTES``.
        """
        objects = self.get(*tokens) or ()
        if len(objects) < _COMPARED_FROM:
            self._add_fields(map(missing, objects), tokens)
            return
        added, field_bytes = _bounded(map(missing, objects), tokens, len(objects))
        changed = sum(map(bool, added))
        if changed >= _COMPARED_FROM:
            per_field = _OPERATION_BYTES + len(pointer(tokens)) + len(f"/{len(objects)}/")
            operation_bytes = field_bytes + per_field * sum(map(len, added))
            replaced_bytes = len(msgspec.json.encode(objects)) + field_bytes
            if min(replaced_bytes, operation_bytes) > MAX_PATCH_BYTES:
                raise PatchTooLargeError(".".join(tokens), len(objects))
            if replaced_bytes < operation_bytes:
                completed = [
                    {**each, **fields} if fields else each for each, fields in zip(objects, added, strict=True)
                ]
                self.set(completed, *tokens)
                return
        self._add_fields(added, tokens)

    def _add_fields(self, added: Iterable[Mapping[str, Any]], tokens: tuple[str, ...]) -> None:
        """Add fields to the objects of a list, by one operation for each field."""
        for index, fields in enumerate(added):
            for name, value in fields.items():
                self.set(value, *tokens, index, name)

    def append(self, value: Any, *tokens: Token) -> None:  # noqa: ANN401 - any JSON value
        """Append a value to the list at a path. A missing list is added."""
        current = self.get(*tokens)
        if current is None:
            self.set([value], *tokens)
            return
        container = self.document
        for token in tokens:
            container = self._own(container, token)
        container.append(value)  # type: ignore[attr-defined]  # the path ends at a list
        self._operations.append(PatchOperation("add", f"{pointer(tokens)}/-", value))

    def remove(self, *tokens: Token) -> None:
        """Remove the value at a path. The value must exist."""
        container = self.document
        for token in tokens[:-1]:
            container = self._own(container, token)
        del container[tokens[-1]]  # type: ignore[arg-type]  # a list's index or an object's key
        self._operations.append(PatchOperation("remove", pointer(tokens)))

    def _own(self, container: Any, token: Token) -> Any:  # noqa: ANN401 - an object or list of the document
        """Return the container at a token, copied before its first change; None if there is none."""
        child = container.get(token) if isinstance(container, dict) else container[token]
        if child is None or id(child) in self._owned:
            return child
        copy = child.copy()
        self._owned[id(copy)] = copy
        container[token] = copy
        return copy

    def _assign(self, container: Any, token: Token, value: Any, tokens: tuple[Token, ...]) -> None:  # noqa: ANN401
        present = token in container if isinstance(container, dict) else True
        container[token] = value
        if isinstance(value, dict | list):
            # Copy the container: later changes inside it must not change the value of this operation.
            self._own(container, token)
        self._operations.append(PatchOperation("replace" if present else "add", pointer(tokens), value))


def _bounded(
    missing: Iterable[Mapping[str, Any]], tokens: tuple[str, ...], objects: int
) -> tuple[list[Mapping[str, Any]], int]:
    """Return the fields that the objects of a list lack, and the bytes of these fields."""
    added, size = [], 0
    for fields in missing:
        added.append(fields)
        size += sum(len(name) + len(str(value)) + _FIELD_BYTES for name, value in fields.items())
        if size > MAX_PATCH_BYTES:
            raise PatchTooLargeError(".".join(tokens), objects)
    return added, size


def pointer(tokens: tuple[Token, ...]) -> str:
    """Return a JSON Pointer (RFC 6901)."""
    plain = "/".join(("", *map(str, tokens)))
    if "~" not in plain and plain.count("/") == len(tokens):
        return plain
    return "".join(f"/{str(token).replace('~', '~0').replace('/', '~1')}" for token in tokens)


def _nested(value: Any, tokens: tuple[Token, ...]) -> Any:  # noqa: ANN401 - any JSON value
    for token in reversed(tokens):
        value = {token: value}
    return value
