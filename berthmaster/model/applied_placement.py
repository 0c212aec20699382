"""The placement of the last scheduling, as Karmada's schedulers write it on a binding."""

from functools import lru_cache
from typing import Any, Final

from msgspec.structs import replace

from berthmaster.model.decode import builtins, decode_json, encode_json
from berthmaster.model.errors import FieldError
from berthmaster.model.placement import Placement

_ESCAPED: Final = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"})
_LENGTH_KEPT: Final = 4096
"""The longest applied placement that is kept decoded."""


def encoded_placement(placement: Placement) -> str:
    """Return the value of the annotation ``APPLIED_PLACEMENT``: compact JSON, ordered and escaped as Go does."""
    content: Placement | dict[str, Any] = placement
    if placement.cluster_affinities is not None:
        content = _with_groups(builtins(placement), "clusterAffinities")
    return encode_json(content).decode().translate(_ESCAPED)


def _with_groups(content: dict[str, Any], field: str) -> dict[str, Any]:
    """Order the groups in a field as Go writes them: the name comes first, and empty lists are omitted."""
    if field not in content:
        return content
    groups = [
        _with_groups({"affinityName": each["affinityName"], **each}, "overflowAffinities") for each in content[field]
    ]
    return {name: groups if name == field else value for name, value in content.items() if name != field or groups}


def decoded_placement(applied: str) -> Placement | None:
    """Return an applied placement; None for an invalid one. The bindings of a policy have equal ones."""
    return _decoded(applied) if len(applied) <= _LENGTH_KEPT else _decoded.__wrapped__(applied)


@lru_cache(maxsize=1024)
def _decoded(applied: str) -> Placement | None:
    try:
        return without_empty_groups(decode_json(Placement, applied))
    except FieldError:
        return None


def without_empty_groups(placement: Placement) -> Placement:
    """Replace empty lists of groups and of overflow by None: the applied placement does not contain them."""
    if placement.cluster_affinities is None:
        return placement
    terms = [
        replace(term, overflow_affinities=term.overflow_affinities or None)
        for term in placement.cluster_affinities or ()
    ]
    return replace(placement, cluster_affinities=tuple(terms) or None)
