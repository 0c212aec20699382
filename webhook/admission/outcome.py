"""The outcome of a review, and the problems that it reports.

JSON Patch (RFC 6902): a draft of a raw document records its changes.

A patch contains only the recorded changes. Unknown fields stay unchanged, and an unchanged document has no patch. The
draft never changes the original: it copies each container before the first change to it.

A list with many changed objects is replaced as a whole if that makes a smaller patch.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

import msgspec

from berthmaster.model.errors import MAX_PATH_LENGTH, printable, shown
from webhook.admission.impact import GateDecision

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


MAX_PROBLEMS: Final = 50
_MAX_DETAIL_LENGTH: Final = 1024


class _Absent:
    """The value of a field that is absent. It differs from any JSON value."""

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = _Absent()


class FieldProblem(NamedTuple):
    """An invalid field, or one that has another effect than expected.

    Attributes:
        path: the field, as in ``spec.placement.spreadConstraints[0]``. It may contain keys of the object.
        value: the value, or ``ABSENT``.
        rule: the id of the rule that found it; empty for a check that cannot be configured.
    """

    path: str
    value: object
    fault: str
    remedy: str
    rule: str = ""

    @property
    def detail(self) -> str:
        """Everything except the path and the rule, as one printable line."""
        value = "" if self.value is ABSENT else f"{_quoted(self.value)}: "
        return printable(f"{value}{self.fault}; {self.remedy}", _MAX_DETAIL_LENGTH)

    def __str__(self) -> str:
        rule = f" [{self.rule}]" if self.rule else ""
        return f"{self.field}: {self.detail}{rule}"

    @property
    def field(self) -> str:
        """The path, as one printable line."""
        return printable(self.path, MAX_PATH_LENGTH)


def bounded(problems: Iterable[FieldProblem], rule: str = "") -> list[FieldProblem]:
    """Return the first ``MAX_PROBLEMS`` problems, and one that says how many more there are.

    Args:
        problems: any number of problems. They are made one by one and not all kept.
    """
    remaining = iter(problems)
    kept = [each._replace(rule=rule) if rule else each for each in islice(remaining, MAX_PROBLEMS)]
    more = sum(1 for _ in remaining) if len(kept) == MAX_PROBLEMS else 0
    if more:
        noun = "problem" if more == 1 else "problems"
        kept.append(FieldProblem("spec", ABSENT, f"{more:,} more {noun} like these", "correct them too", rule))
    return kept


def _quoted(value: object) -> str:
    """Return a value as text, with JSON's words for JSON's constants."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return shown(value)


class ReviewOutcome(msgspec.Struct, frozen=True):
    """The result of one review.

    Attributes:
        warnings: the warnings for the user, the most important first.
        mutated: the object with the patch; None from a review that only validates.
        malformed: why the request is invalid. The answer is then 400 Bad Request instead of 403 Forbidden.
    """

    denials: tuple[FieldProblem, ...] = ()
    warnings: tuple[FieldProblem | str, ...] = ()
    patch: tuple[PatchOperation, ...] = ()
    mutated: dict[str, Any] | None = None
    audit: dict[str, str] = {}
    gate: GateDecision | None = None
    malformed: str = ""

    @property
    def allowed(self) -> bool:
        return not self.denials and not self.malformed

    @property
    def rules(self) -> list[str]:
        """The id of the rule of each finding, with duplicates."""
        found = [*self.denials, *(each for each in self.warnings if isinstance(each, FieldProblem))]
        return [each.rule for each in found if each.rule]


ALLOWED: Final = ReviewOutcome()
