"""Placements with parts that this version does not know.

A field of a newer Karmada that is ignored can misplace a workload. A placement with such parts is therefore a value of
its own type, which schedulers hold: what runs stays, and nothing is scheduled anew.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from berthmaster.model.binding import Binding
from berthmaster.model.decode import NOT_JSON, decode_json, read_json, without_nulls
from berthmaster.model.errors import FieldError
from berthmaster.model.meta import with_spec
from berthmaster.model.placement import Placement
from berthmaster.model.policy import Policy
from berthmaster.model.unknown_fields import has_unknown_fields, unknown_fields

PLACEMENT: Final = "spec.placement"
_MAX_SHOWN: Final = 5
_NULL: Final = msgspec.Raw(b"null")
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class UnsupportedPlacement(Placement, frozen=True):
    """A placement with unknown parts, each named by its path and what is wrong with it. The rest is as written."""

    unsupported: tuple[str, ...] = ()


class _SpecOutline(msgspec.Struct, frozen=True, gc=False):
    placement: msgspec.Raw = _NULL


class _Outline(msgspec.Struct, frozen=True, gc=False):
    spec: _SpecOutline | None = None


_OUTLINE: Final = msgspec.json.Decoder(_Outline)


def unsupported_parts(placement: Placement | None) -> tuple[str, ...]:
    return placement.unsupported if isinstance(placement, UnsupportedPlacement) else ()


def unsupported_message(parts: tuple[str, ...]) -> str:
    more = len(parts) - _MAX_SHOWN
    shown = "; ".join(parts[:_MAX_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    return f"this version of Berthmaster does not know a part of the placement, so it schedules nothing anew: {shown}"


def placement_text(document: bytes) -> bytes:
    """Return the JSON of ``spec.placement`` of a valid document; ``null`` without one."""
    spec = _OUTLINE.decode(document).spec
    return bytes(_NULL if spec is None else spec.placement)


def checked_placement(placement: Placement, raw: Any) -> Placement:  # noqa: ANN401 - any JSON value
    """Return a placement, or an ``UnsupportedPlacement`` if its document (dicts, lists) has unknown fields."""
    found = unknown_placement_fields(raw)
    if not found:
        return placement
    fields = {name: getattr(placement, name) for name in Placement.__struct_fields__}
    return UnsupportedPlacement(**fields, unsupported=tuple(str(each.below(PLACEMENT)) for each in found))


def unknown_placement_fields(raw: Any) -> list[FieldError]:  # noqa: ANN401 - any JSON value
    """Return an error for each unknown field of a placement that is given as dicts and lists. Null is absent."""
    if not isinstance(raw, Mapping) or not has_unknown_fields(Placement, raw):
        return []
    return [*unknown_fields(Placement, without_nulls(raw))]


def decode_held_binding(document: bytes) -> Binding | None:
    """Decode a binding without its invalid placement. Return None if another part is invalid, too."""
    try:
        outline = _OBJECT.decode(document)
        spec = _OBJECT.decode(outline["spec"])
        text = spec.pop("placement")
        binding = decode_json(Binding, msgspec.json.encode({**outline, "spec": spec}))
    except (FieldError, KeyError, *NOT_JSON):
        return None
    try:
        decode_json(Placement, text)
    except FieldError as error:
        placement = UnsupportedPlacement(unsupported=(str(error.below(PLACEMENT)),))
        return with_spec(binding, placement=placement)
    return None


def decode_checked_policy(document: bytes) -> Policy:
    """Decode a policy; one with unknown fields in its placement has an ``UnsupportedPlacement``."""
    policy = decode_json(Policy, document)
    checked = checked_placement(policy.spec.placement, read_json(placement_text(document)))
    if checked is policy.spec.placement:
        return policy
    return with_spec(policy, placement=checked)
