"""What the API server of a release of Karmada refuses, although another supported release accepts it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from berthmaster.model.failover_behavior import FORMER_PURGE_MODES
from berthmaster.model.policy import POLICY_KINDS
from berthmaster.model.releases import FIELDS_SINCE, PURGE_MODES_REMOVED, KarmadaReleases, text_of
from webhook.admission.field_problem import ABSENT, FieldProblem
from webhook.admission.schema import SCHEMA, UNKNOWN_FIELD

_PURGE_MODE: Final = ("spec", "failover", "application", "purgeMode")


def release_problems(raw: Mapping[str, Any], releases: KarmadaReleases | None) -> Iterator[FieldProblem]:
    """Yield the fields and values of a policy that none of the possible releases has. ``releases``: None for all."""
    if releases is None or raw.get("kind") not in POLICY_KINDS:
        return
    for path, since in FIELDS_SINCE.items():
        if releases.newest < since:
            for found, _ in _values(raw, path, ""):
                yield FieldProblem(
                    found, ABSENT, f"Karmada {releases} does not have this field, which came with {text_of(since)}",
                    "remove it, or update Karmada", UNKNOWN_FIELD,
                )  # fmt: skip
    if releases.oldest >= PURGE_MODES_REMOVED:
        for found, value in _values(raw, _PURGE_MODE, ""):
            if value in FORMER_PURGE_MODES:
                today = FORMER_PURGE_MODES[value]
                removed = text_of(PURGE_MODES_REMOVED)
                yield FieldProblem(found, value, f"Karmada {removed} has removed this value", f"write {today}", SCHEMA)


def accepts_former_purge_modes(releases: KarmadaReleases | None) -> bool:
    """Return whether all possible releases accept the former names of purge modes."""
    return releases is not None and releases.newest < PURGE_MODES_REMOVED


def _values(value: object, path: tuple[str, ...], place: str) -> Iterator[tuple[str, Any]]:
    """Yield the values at a path, which has no index of lists, each with its whole path."""
    if not path:
        yield place, value
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _values(each, path, f"{place}[{index}]")
    elif isinstance(value, Mapping) and path[0] in value:
        yield from _values(value[path[0]], path[1:], f"{place}.{path[0]}" if place else path[0])
