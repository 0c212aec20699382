"""JSON Patch (RFC 6902): a draft of a raw document records its changes.

A patch contains only the recorded changes. Unknown fields stay unchanged, and an unchanged document has no patch. The
draft never changes the original: it copies each container before the first change to it.
"""

from typing import Any, Literal

import msgspec

Token = str | int


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation. A removal has no ``value``."""

    op: Literal["add", "replace", "remove"]
    path: str
    value: Any = msgspec.UNSET


class Draft:
    """A copy of a raw document that records its changes.

    Attributes:
        document: the current state.
    """

    __slots__ = ("_operations", "_owned", "document")

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = dict(document)
        self._operations: list[Operation] = []
        # Python may reuse the id of a deleted container. The references keep the containers alive.
        self._owned: dict[int, Any] = {id(self.document): self.document}

    @property
    def operations(self) -> tuple[Operation, ...]:
        return tuple(self._operations)

    def get(self, *tokens: Token) -> Any:  # noqa: ANN401 - any JSON value
        value: Any = self.document
        for token in tokens:
            if isinstance(token, int) or not isinstance(value, dict):
                value = value[token] if isinstance(value, list) and isinstance(token, int) else None
            else:
                value = value.get(token)
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
        self._operations.append(Operation("add", f"{pointer(tokens)}/-", value))

    def remove(self, *tokens: Token) -> None:
        """Remove the value at a path. The value must exist."""
        container = self.document
        for token in tokens[:-1]:
            container = self._own(container, token)
        del container[tokens[-1]]  # type: ignore[arg-type]  # a list's index or an object's key
        self._operations.append(Operation("remove", pointer(tokens)))

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
        self._operations.append(Operation("replace" if present else "add", pointer(tokens), value))


def pointer(tokens: tuple[Token, ...]) -> str:
    """Return a JSON Pointer (RFC 6901)."""
    return "".join(f"/{str(token).replace('~', '~0').replace('/', '~1')}" for token in tokens)


def _nested(value: Any, tokens: tuple[Token, ...]) -> Any:  # noqa: ANN401 - any JSON value
    for token in reversed(tokens):
        value = {token: value}
    return value
