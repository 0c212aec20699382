"""Parts of a placement that this version does not know: fields and values of a newer Karmada.

A field that is ignored can misplace a workload. A placement with such parts is therefore a value of its own type, which
schedulers hold: what runs stays, and nothing is scheduled anew.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from berthmaster.model.binding import Binding
from berthmaster.model.decode import decode_json, has_unknown_fields, json_value, unknown_fields
from berthmaster.model.errors import FieldError
from berthmaster.model.policy import Placement, Policy

PLACEMENT: Final = "spec.placement"
_MAX_SHOWN: Final = 5


class UnsupportedPlacement(Placement, frozen=True):
    """A placement with parts that this version does not know. Its other parts are those of the document.

    Attributes:
        unsupported: the unknown parts, each as its path and what is wrong with it.
    """

    unsupported: tuple[str, ...] = ()


_NULL: Final = msgspec.Raw(b"null")


class _SpecOutline(msgspec.Struct, frozen=True, gc=False):
    placement: msgspec.Raw = _NULL


class _Outline(msgspec.Struct, frozen=True, gc=False):
    spec: _SpecOutline | None = None


_OUTLINE: Final = msgspec.json.Decoder(_Outline)
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def unsupported_parts(placement: Placement | None) -> tuple[str, ...]:
    """Return the parts of a placement that this version does not know; empty if it knows all of them."""
    return placement.unsupported if isinstance(placement, UnsupportedPlacement) else ()


def unsupported_message(parts: tuple[str, ...]) -> str:
    """Return why a workload with these unknown parts is held, for a condition or a table."""
    more = len(parts) - _MAX_SHOWN
    shown = "; ".join(parts[:_MAX_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    return f"this version of Berthmaster does not know a part of the placement, so it schedules nothing anew: {shown}"


def placement_text(document: bytes) -> bytes:
    """Return the JSON of ``spec.placement`` of a valid document; ``null`` without one."""
    spec = _OUTLINE.decode(document).spec
    return bytes(_NULL if spec is None else spec.placement)


def checked_placement(placement: Placement, raw: Any) -> Placement:  # noqa: ANN401 - any JSON value
    """Return a placement, or an ``UnsupportedPlacement`` if its document has unknown fields.

    Args:
        raw: the same placement as dicts and lists. Null fields count as absent.
    """
    found = unknown_placement_fields(raw)
    if not found:
        return placement
    return _unsupported(placement, tuple(str(each.below(PLACEMENT)) for each in found))


def unknown_placement_fields(raw: Any) -> list[FieldError]:  # noqa: ANN401 - any JSON value
    """Return an error for each field of a placement that this version does not know, with its path in the placement.

    Args:
        raw: the placement as dicts and lists. Null fields count as absent.
    """
    if not isinstance(raw, Mapping) or not has_unknown_fields(Placement, raw):
        return []
    return [*unknown_fields(Placement, _without_null(raw))]


def decode_held_binding(document: bytes) -> Binding | None:
    """Decode a binding whose placement cannot be decoded, without that placement.

    A newer Karmada may have values that this version does not accept. The result holds the workload where it is.

    Returns:
        The binding with an ``UnsupportedPlacement``; None if the placement is valid or another part is invalid too.
    """
    try:
        outline = _OBJECT.decode(document)
        spec = _OBJECT.decode(outline["spec"])
        text = spec.pop("placement")
        binding = decode_json(Binding, msgspec.json.encode({**outline, "spec": spec}))
    except (FieldError, KeyError, msgspec.DecodeError):
        return None
    try:
        decode_json(Placement, text)
    except FieldError as error:
        placement = UnsupportedPlacement(unsupported=(str(error.below(PLACEMENT)),))
        return msgspec.structs.replace(binding, spec=msgspec.structs.replace(binding.spec, placement=placement))
    return None


def decode_checked_binding(document: bytes) -> Binding:
    """Decode a binding; one with unknown parts in its placement has an ``UnsupportedPlacement``."""
    return decode_binding(document, lambda placement, text: checked_placement(placement, json_value(text)))


def decode_binding(document: bytes, checked: Callable[[Placement, bytes], Placement]) -> Binding:
    """Decode a binding. A value of its placement that is not known makes it an ``UnsupportedPlacement``.

    Args:
        checked: returns the placement to use instead of a decoded one. It gets the placement as JSON, too.

    Raises:
        FieldError: another part of the binding is invalid.
    """
    try:
        binding = decode_json(Binding, document)
    except FieldError:
        held = decode_held_binding(document)
        if held is None:
            raise
        return held
    placement = binding.spec.placement
    if placement is None:
        return binding
    used = checked(placement, placement_text(document))
    if used is placement:
        return binding
    return msgspec.structs.replace(binding, spec=msgspec.structs.replace(binding.spec, placement=used))


def decode_checked_policy(document: bytes) -> Policy:
    """Decode a policy; one with unknown fields in its placement has an ``UnsupportedPlacement``."""
    policy = decode_json(Policy, document)
    checked = checked_placement(policy.spec.placement, json_value(placement_text(document)))
    if checked is policy.spec.placement:
        return policy
    return msgspec.structs.replace(policy, spec=msgspec.structs.replace(policy.spec, placement=checked))


def _unsupported(placement: Placement, parts: tuple[str, ...]) -> UnsupportedPlacement:
    fields = {name: getattr(placement, name) for name in placement.__struct_fields__ if name != "unsupported"}
    return UnsupportedPlacement(**fields, unsupported=parts)


def _without_null(raw: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(raw, Mapping):
        return {key: _without_null(value) for key, value in raw.items() if value is not None}
    return [_without_null(each) for each in raw] if isinstance(raw, list) else raw
