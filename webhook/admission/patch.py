"""JSON Patch (RFC 6902), written down while a raw document is changed.

Only what is changed on purpose is ever part of a patch: fields that no type of ours knows stay as they are, and a
document that is not changed yields no patch. The original is never touched; containers are copied on the way to a
change.
"""

from typing import Any, Literal

import msgspec

Token = str | int


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation. ``value`` plays no part in a removal."""

    op: Literal["add", "replace", "remove"]
    path: str
    value: Any = msgspec.UNSET


class Draft:
    """A raw document that is being changed.

    Attributes:
        document: how it looks now.
    """

    __slots__ = ("_operations", "_owned", "document")

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = dict(document)
        self._operations: list[Operation] = []
        # The containers themselves are kept as well: the id of one that is gone may come back as another's.
        self._owned: dict[int, Any] = {id(self.document): self.document}

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The changes so far, in order."""
        return tuple(self._operations)

    def get(self, *tokens: Token) -> Any:  # noqa: ANN401 - any JSON value
        """What stands at a path; None where nothing does."""
        value: Any = self.document
        for token in tokens:
            if isinstance(token, int) or not isinstance(value, dict):
                value = value[token] if isinstance(value, list) and isinstance(token, int) else None
            else:
                value = value.get(token)
        return value

    def set(self, value: Any, *tokens: Token) -> None:  # noqa: ANN401 - any JSON value
        """Put a value at a path; objects that are missing (or null) on the way are made, by one operation."""
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
        """Add a value at the end of the list at a path, which is made if it is missing."""
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
        """Take away what stands at a path, which must be there."""
        container = self.document
        for token in tokens[:-1]:
            container = self._own(container, token)
        del container[tokens[-1]]  # type: ignore[arg-type]  # a list's index or an object's key
        self._operations.append(Operation("remove", pointer(tokens)))

    def _own(self, container: Any, token: Token) -> Any:  # noqa: ANN401 - an object or list of the document
        """The container at a token, copied before it is changed for the first time; None if there is none."""
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
            # The operation keeps its value as it is now, whatever is changed below it later.
            self._own(container, token)
        self._operations.append(Operation("replace" if present else "add", pointer(tokens), value))


def pointer(tokens: tuple[Token, ...]) -> str:
    """A JSON Pointer (RFC 6901)."""
    return "".join(f"/{str(token).replace('~', '~0').replace('/', '~1')}" for token in tokens)


def _nested(value: Any, tokens: tuple[Token, ...]) -> Any:  # noqa: ANN401 - any JSON value
    for token in reversed(tokens):
        value = {token: value}
    return value
