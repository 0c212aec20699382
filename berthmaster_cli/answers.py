"""The answers of commands in JSON and YAML: each names its version and its kind, as an object of Kubernetes does."""

from typing import Any, Final, NamedTuple

API_VERSION: Final = "cli.berthmaster.io/v1alpha1"
"""The version of all answers. Fields are added to it, and never renamed or removed."""


class AnswerKind(NamedTuple):
    """What a command prints with ``-o json`` and ``-o yaml``.

    Attributes:
        kind: the ``kind`` of the answer. That of several rows ends in ``List``.
        form: the struct with its fields; ``list[ROW]`` for rows, which are the ``items`` of the answer.
        passing: the fields, at any depth, that are different each time, although nothing has changed: times and ages.
    """

    kind: str
    form: Any
    passing: frozenset[str] = frozenset()

    def document(self, plain: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
        """Return the answer with its version and its kind. ``plain``: its fields, or its rows."""
        fields = {"items": plain} if isinstance(plain, list) else plain
        return {"apiVersion": API_VERSION, "kind": self.kind, **fields}

    def compared(self, document: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Return a document without the fields that pass."""
        match document:
            case dict():
                return {key: self.compared(each) for key, each in document.items() if key not in self.passing}
            case list():
                return [self.compared(each) for each in document]
        return document
