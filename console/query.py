"""The query of a page: every parameter is checked and bounded. A wrong value is an error that names it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from werkzeug.datastructures import MultiDict

from berthmaster.model.errors import InputError, name_list, shown

MAX_TEXT: Final = 512
_MAX_PAGE: Final = 1_000_000


class QueryError(InputError):
    """A parameter of an address is invalid. The message has its name, its value and what is accepted."""


class PageQuery:
    """The parameters of a page. Parameters that no page knows, such as those of a newsletter, have no effect."""

    def __init__(self, values: "MultiDict[str, str]") -> None:
        """Keep ``flask.request.args``."""
        self._values = values

    def text(self, name: str, default: str = "") -> str:
        """Return a text without space around it."""
        value = self._values.get(name, default).strip()
        if len(value) > MAX_TEXT:
            raise QueryError(f"{name}: {shown(value)} is longer than {MAX_TEXT} characters")
        return value

    def choice(self, name: str, accepted: Sequence[str], default: str) -> str:
        """Return one of some words."""
        value = self.text(name) or default
        if value != default and value not in accepted:
            raise QueryError(f"{name}: {shown(value)} is not accepted; accepted: {name_list(accepted, 20)}")
        return value

    def choices(self, name: str, accepted: Sequence[str]) -> tuple[str, ...]:
        """Return several of some words. The parameter may be repeated, and a value may list words with commas."""
        given = [word.strip() for value in self._values.getlist(name) for word in value[:MAX_TEXT].split(",")]
        for word in given:
            if word and word not in accepted:
                raise QueryError(f"{name}: {shown(word)} is not accepted; accepted: {name_list(accepted, 20)}")
        return tuple(dict.fromkeys(filter(None, given)))

    def sort(self, accepted: Sequence[str], default: str = "") -> str:
        """Return the parameter ``sort``: one of the words, with a leading ``-`` for descending order."""
        value = self.text("sort") or default
        if value != default and value.removeprefix("-") not in accepted:
            listed = name_list(accepted, 20)
            raise QueryError(f"sort: {shown(value)} is not accepted; accepted: {listed}, each also with a leading -")
        return value

    def page(self) -> int:
        """Return the number of the page in a long table, from 1."""
        value = self.text("page") or "1"
        if not (value.isascii() and value.isdecimal() and len(value) <= 7 and 1 <= int(value) <= _MAX_PAGE):
            raise QueryError(f"page: {shown(value)} is not a number from 1 to {_MAX_PAGE:,}")
        return int(value)

    def moment(self, name: str) -> datetime | None:
        """Return a time; without an offset it is in UTC. None without the parameter."""
        value = self.text(name)
        if not value:
            return None
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise QueryError(
                f"{name}: {shown(value)} is not a time; accepted is a time such as 2026-11-21T03:12"
            ) from None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
