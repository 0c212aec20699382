"""The option with the limits of placements, which all components share."""

from typing import Final

from berthmaster.model.placement_limits import LIMIT_NAMES, MAX_LIMIT, OPTION, PlacementLimits
from berthmaster_cli.flags import Flags, Parsed, option

_DEFAULTS: Final = PlacementLimits()._asdict()
_NAMED_DEFAULTS: Final = ", ".join(f"{name} ({_DEFAULTS[field]:,})" for name, field in LIMIT_NAMES.items())


class PlacementLimitsFlags(Flags):
    """Limits of placements."""

    placement_limits: PlacementLimits = option(
        "Limits on the size of a placement, as a comma-separated list of NAME=N. Larger ones are refused. Use the "
        f"same list for all components. N is at most {MAX_LIMIT:,}. Names and defaults: {_NAMED_DEFAULTS}.",
        "", Parsed("LIST", PlacementLimits.parse), names=(OPTION,), metavar="LIST",
    )  # fmt: skip
